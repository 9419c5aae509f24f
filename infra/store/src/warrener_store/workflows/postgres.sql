-- name: wake_suspended
-- Make suspended jobs due, and their versions grow. Locked in the order of ids and looked up by key, as in mark_unpublished.
WITH held AS (
  SELECT found.job_id
  FROM (SELECT unnest($1::uuid[]) AS job_id ORDER BY 1) AS batch
  CROSS JOIN LATERAL (
    SELECT job.job_id
    FROM warrener_jobs AS job
    WHERE job.job_id = batch.job_id AND (job.state = 'suspended') IS TRUE
    FOR NO KEY UPDATE
  ) AS found
)
UPDATE warrener_jobs AS job
SET wake_at = least(job.wake_at, $2::timestamptz), version = job.version + 1
FROM held
WHERE job.job_id = ANY (ARRAY[held.job_id])
RETURNING job.job_id
