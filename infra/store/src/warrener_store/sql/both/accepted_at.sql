-- Where a job stands among all.
SELECT accepted_at
FROM warrener_jobs
WHERE job_id = $1
