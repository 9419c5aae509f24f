-- Claim running jobs whose loss is to be declared: move lease_until. SKIP LOCKED: what another caller claims, or saves,
-- at this moment is its own. Each is looked up by its key, in the order of ids (LATERAL with a lock is never
-- rearranged, IS TRUE keeps to that index).
WITH found AS (
  SELECT held.job_id
  FROM (SELECT unnest($1::uuid[]) AS job_id ORDER BY 1) AS told
  CROSS JOIN LATERAL (
    SELECT job.job_id
    FROM warrener_jobs AS job
    WHERE job.job_id = told.job_id AND job.lease_until <= $2::timestamptz AND (job.state = 'running') IS TRUE
    FOR NO KEY UPDATE SKIP LOCKED
  ) AS held
)
UPDATE warrener_jobs AS job
SET lease_until = $3::timestamptz, version = job.version + 1
FROM found
WHERE job.job_id = ANY (ARRAY[found.job_id])
RETURNING {job}
