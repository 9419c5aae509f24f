-- The jobs of these ids.
SELECT {job}
FROM json_each(?1) AS told
JOIN warrener_jobs AS job ON job.job_id = told.value
