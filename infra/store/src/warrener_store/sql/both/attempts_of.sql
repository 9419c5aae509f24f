-- The attempts of one job that are over, in order. One by which a job succeeded stands in the job's own row
-- (`last_attempt.py`), unless it was kept as a row of its own.
SELECT
  job_id, attempt, ended_as, agent_id, dispatched_at, started_at, finished_at, error, verdict
FROM warrener_attempts
WHERE job_id = $1
UNION ALL
SELECT
  job_id, attempt, 'succeeded', owner, dispatched_at, ran_from, ran_until, NULL, 'done'
FROM warrener_jobs AS job
WHERE
  job_id = $1 AND ran_until IS NOT NULL
  AND NOT EXISTS (
    SELECT 1 FROM warrener_attempts AS kept WHERE kept.job_id = job.job_id AND kept.attempt = job.attempt
  )
ORDER BY attempt
