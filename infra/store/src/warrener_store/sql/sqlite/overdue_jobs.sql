-- Jobs whose deadline has passed; deadline_wake_at is null once a job is over.
SELECT {job}
FROM warrener_jobs AS job
WHERE job.deadline_wake_at <= ?1
ORDER BY job.deadline_wake_at, job.job_id
LIMIT ?2
