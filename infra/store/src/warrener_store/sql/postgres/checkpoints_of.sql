-- The newest checkpoint of each of these jobs that has one.
SELECT job_id, attempt, number, state, saved_at
FROM warrener_checkpoints
WHERE job_id = ANY($1::uuid[])
