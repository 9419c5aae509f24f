-- The reply addresses of those of these jobs that are not over.
SELECT job.job_id, job.watchers
FROM json_each(?1) AS told
JOIN warrener_jobs AS job ON job.job_id = told.value
WHERE job.finished_at IS NULL
