-- Queued jobs whose dispatch the broker does not have. Those that somebody has just touched are left to him.
SELECT {job}
FROM warrener_jobs AS job
WHERE
  job.state = 'queued' AND job.queue = $1 AND job.dispatched_at IS NULL AND job.updated_at <= $2
  AND job.job_id > $4
ORDER BY job.job_id
LIMIT $3
