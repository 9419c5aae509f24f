-- Extend the leases of jobs that still run this attempt under this agent, and say which they are.
--
-- Locked in the order of ids, as everywhere, so that a heartbeat and a save cannot wait for each other in a circle. Each
-- row is looked up by its key (LATERAL with a lock is never rearranged, IS TRUE keeps to that index): an agent's few
-- leases must not read all that runs.
WITH held AS (
  SELECT found.job_id, told.until, told.wake_at
  FROM (
    SELECT *
    FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::timestamptz[], $5::timestamptz[])
      AS told (job_id, attempt, agent_id, until, wake_at)
    ORDER BY told.job_id
  ) AS told
  CROSS JOIN LATERAL (
    SELECT job.job_id
    FROM warrener_jobs AS job
    WHERE
      job.job_id = told.job_id AND job.attempt = told.attempt AND job.owner = told.agent_id
      AND (job.state = 'running') IS TRUE
    FOR NO KEY UPDATE
  ) AS found
),
extended AS (
  UPDATE warrener_jobs AS job
  SET lease_until = held.until, wake_at = held.wake_at, version = job.version + 1
  FROM held
  WHERE job.job_id = ANY (ARRAY[held.job_id]) AND job.lease_until < held.until
)
SELECT job_id FROM held
