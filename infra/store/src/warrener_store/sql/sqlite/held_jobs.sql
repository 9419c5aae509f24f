-- Jobs whose time had come and that were put off, the first due first.
SELECT job_id
FROM warrener_jobs
WHERE job_type IN (SELECT value FROM json_each(?1)) AND +state IN ('waiting', 'retrying')
  AND due_at <= ?2 AND wake_at > ?3
ORDER BY due_at, job_id
LIMIT ?4
