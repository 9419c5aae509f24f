-- The jobs that these have asked for, and whether they are over. A job is over if and only if it has an end.
SELECT job_id, parent_id, finished_at IS NOT NULL
FROM warrener_jobs
WHERE parent_id = ANY($1::uuid[])
