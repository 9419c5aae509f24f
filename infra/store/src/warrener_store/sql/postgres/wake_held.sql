-- Have jobs looked at now whose time had come and that were put off, the first due first.
--
-- warrener_jobs_due holds only what is not over, so finished jobs cost nothing here.
WITH held AS (
  SELECT job_id
  FROM warrener_jobs
  WHERE job_type = ANY($1::text[]) AND state IN ('waiting', 'retrying')
    AND due_at <= $2::timestamptz AND wake_at > $3::timestamptz
  ORDER BY due_at, job_id
  LIMIT $4::bigint
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE warrener_jobs AS job
SET wake_at = $2::timestamptz, version = job.version + 1
FROM held
WHERE job.job_id = held.job_id
RETURNING job.job_id
