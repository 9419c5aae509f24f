-- Those of these jobs that run, and of which nothing was heard for a lease. The + keeps SQLite to the primary key.
SELECT {job}
FROM warrener_jobs AS job
WHERE job.job_id IN (SELECT value FROM json_each(?1)) AND +job.state = 'running' AND job.lease_until <= ?2
