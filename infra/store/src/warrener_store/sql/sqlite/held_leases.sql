-- Which of these (id, attempt, agent) are what runs: their places in the batch.
-- The + keeps SQLite from the index by state: by the primary key it reads one row for each lease.
SELECT told.key
FROM json_each(?1) AS told
JOIN warrener_jobs AS job ON job.job_id = told.value ->> 0
WHERE +job.state = 'running' AND job.attempt = told.value ->> 1 AND job.owner = told.value ->> 2
