-- Extend the leases of jobs that still run this attempt under this agent, and say which they are.
--
-- Locked in the order of ids, as everywhere, so that a heartbeat and a save cannot wait for each other in a circle.
WITH told AS (
  SELECT *
  FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::timestamptz[], $5::timestamptz[])
    AS told (job_id, attempt, agent_id, until, wake_at)
),
held AS (
  SELECT job.job_id, told.until, told.wake_at
  FROM warrener_jobs AS job
  JOIN told ON told.job_id = job.job_id
  WHERE job.state = 'running' AND job.attempt = told.attempt AND job.owner = told.agent_id
  ORDER BY job.job_id
  FOR NO KEY UPDATE OF job
),
extended AS (
  UPDATE warrener_jobs AS job
  SET lease_until = held.until, wake_at = held.wake_at, version = job.version + 1
  FROM held
  WHERE job.job_id = held.job_id AND job.lease_until < held.until
)
SELECT job_id FROM held
