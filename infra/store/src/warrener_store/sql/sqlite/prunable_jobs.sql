-- Which of these jobs may go, and as what they are counted.
SELECT job.job_id, job.job_type, job.state
FROM json_each($3) AS told
JOIN warrener_jobs AS job ON job.job_id = told.value
WHERE job.finished_at IS NOT NULL AND {prunable}
