-- Those of these jobs that run. The + keeps SQLite to the primary key.
SELECT job.job_id, job.attempt, job.owner, job.lease_until, job.cancel_reason IS NOT NULL AS cancelled
FROM warrener_jobs AS job
WHERE job.job_id IN (SELECT value FROM json_each(?1)) AND +job.state = 'running'
