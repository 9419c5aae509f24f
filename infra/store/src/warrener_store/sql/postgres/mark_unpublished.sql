-- Note that the broker has not taken these dispatches.
--
-- Locked in the order of ids and looked up by key, as in renew_leases.
WITH held AS (
  SELECT found.job_id, told.at
  FROM (
    SELECT * FROM unnest($1::uuid[], $2::integer[], $3::timestamptz[]) AS told (job_id, attempt, at) ORDER BY job_id
  ) AS told
  CROSS JOIN LATERAL (
    SELECT job.job_id
    FROM warrener_jobs AS job
    WHERE
      job.job_id = told.job_id AND job.attempt = told.attempt AND (job.state IN ('queued', 'retrying')) IS TRUE
    FOR NO KEY UPDATE
  ) AS found
)
UPDATE warrener_jobs AS job
SET dispatched_at = NULL, updated_at = held.at, version = job.version + 1
FROM held
WHERE job.job_id = ANY (ARRAY[held.job_id])
