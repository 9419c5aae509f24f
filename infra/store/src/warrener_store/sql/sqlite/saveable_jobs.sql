-- Which of these (id, version) are still what was judged, and not over; with what the counts must know.
SELECT job.job_id, job.job_type, job.state
FROM json_each(?1) AS told
JOIN warrener_jobs AS job ON job.job_id = told.value ->> 0
WHERE job.version = told.value ->> 1 AND job.finished_at IS NULL
