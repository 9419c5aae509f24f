-- The newest checkpoint of each of these jobs that has one.
SELECT kept.job_id, kept.attempt, kept.number, kept.state, kept.saved_at
FROM json_each(?1) AS told
JOIN warrener_checkpoints AS kept ON kept.job_id = told.value
