-- name: wake_suspended
-- Make suspended jobs due, and their versions grow. The + keeps SQLite to the primary key.
UPDATE warrener_jobs
SET wake_at = min(wake_at, ?2), version = version + 1
WHERE job_id IN (SELECT value FROM json_each(?1)) AND +state = 'suspended'
RETURNING job_id
