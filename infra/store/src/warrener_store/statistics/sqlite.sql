-- name: recent_ends
-- The number of jobs that ended in each minute since a moment.
SELECT job_type, state, substr(finished_at, 1, 16) || ':00Z' AS minute, count(*) AS jobs
FROM warrener_jobs INDEXED BY warrener_jobs_ended
WHERE finished_at IS NOT NULL AND finished_at > ?1
GROUP BY job_type, state, minute

-- name: move_position
-- Move the position of the rollup; no row if another supervisor was first.
{moved_position}

-- name: put_series
-- Write a bucket.
INSERT OR REPLACE INTO warrener_statistics ({series_bucket})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: put_cause
-- Write a bucket of a cause.
INSERT OR REPLACE INTO warrener_statistics_causes ({cause_bucket})
VALUES (?, ?, ?, ?, ?, ?, ?)
