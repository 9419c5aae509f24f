-- The jobs that these have asked for, and whether they are over. A job is over if and only if it has an end.
SELECT job.job_id, job.parent_id, job.finished_at IS NOT NULL
FROM json_each(?1) AS told
JOIN warrener_jobs AS job ON job.parent_id = told.value
