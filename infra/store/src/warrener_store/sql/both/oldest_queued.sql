-- The published jobs of a queue that are queued, the first dispatched first.
SELECT job_id, dispatched_at
FROM warrener_jobs
WHERE state = 'queued' AND queue = $1 AND dispatched_at <= $2
ORDER BY dispatched_at, job_id
LIMIT $3
