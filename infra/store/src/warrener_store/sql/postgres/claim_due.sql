-- Claim jobs that are due: move their wake_at. SKIP LOCKED: what another caller claims at this moment is its own.
--
-- warrener_jobs_due holds only what is not over, so finished jobs cost nothing here.
WITH due AS (
  SELECT job_id, wake_at
  FROM warrener_jobs
  WHERE state = ANY($1::text[]) AND wake_at <= $2::timestamptz
  ORDER BY wake_at, job_id
  LIMIT $4::bigint
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE warrener_jobs AS job
SET wake_at = $3::timestamptz, version = job.version + 1
FROM due
WHERE job.job_id = due.job_id
RETURNING {job}, due.wake_at AS was_due_at
