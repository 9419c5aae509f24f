-- Claim jobs whose deadline has passed: move deadline_wake_at, which is null once a job is over.
WITH due AS (
  SELECT job_id, deadline_wake_at
  FROM warrener_jobs
  WHERE deadline_wake_at <= $1::timestamptz
  ORDER BY deadline_wake_at, job_id
  LIMIT $3::bigint
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE warrener_jobs AS job
SET deadline_wake_at = $2::timestamptz, version = job.version + 1
FROM due
WHERE job.job_id = due.job_id
RETURNING {job}, due.deadline_wake_at AS was_due_at
