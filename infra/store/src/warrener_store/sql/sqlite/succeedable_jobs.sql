-- Which of these (id, attempt) are in flight with this attempt; what there is to tell of them, and what they leave.
-- The plus keeps SQLite from looking through all that is in flight, by an index that begins with the state.
SELECT {succeeded}, job.state
FROM json_each(?1) AS told
JOIN warrener_jobs AS job ON job.job_id = told.value ->> 0
WHERE job.attempt = told.value ->> 1 AND +job.state IN ({in_flight})
