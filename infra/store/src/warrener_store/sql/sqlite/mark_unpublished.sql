-- Note that the broker has not taken a dispatch.
UPDATE warrener_jobs
SET dispatched_at = NULL, updated_at = ?3, version = version + 1
WHERE job_id = ?1 AND attempt = ?2 AND state IN ('queued', 'retrying')
