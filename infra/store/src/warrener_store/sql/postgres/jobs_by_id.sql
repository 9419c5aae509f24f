-- The jobs of these ids.
SELECT {job}
FROM warrener_jobs AS job
WHERE job.job_id = ANY($1::uuid[])
