-- The attempts of one job that are over, in order.
SELECT
  job_id, attempt, ended_as, agent_id, dispatched_at, started_at, finished_at, error, verdict
FROM warrener_attempts
WHERE job_id = $1
ORDER BY attempt
