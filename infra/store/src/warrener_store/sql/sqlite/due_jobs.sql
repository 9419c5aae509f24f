-- Jobs that are due. warrener_jobs_due holds only what is not over, so finished jobs cost nothing here.
-- The + keeps SQLite from the index by state, which would read all jobs of the state and sort them.
SELECT {job}
FROM warrener_jobs AS job
WHERE +job.state IN (SELECT value FROM json_each(?1)) AND job.wake_at <= ?2
ORDER BY job.wake_at, job.job_id
LIMIT ?3
