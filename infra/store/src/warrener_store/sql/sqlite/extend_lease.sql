-- Extend one lease that was found held; one that lasts longer stays as it is.
UPDATE warrener_jobs
SET lease_until = ?2, wake_at = ?3, version = version + 1
WHERE job_id = ?1 AND lease_until < ?2
