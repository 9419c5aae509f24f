-- Claim jobs whose deadline was found to have passed.
UPDATE warrener_jobs
SET deadline_wake_at = ?2, version = version + 1
WHERE job_id IN (SELECT value FROM json_each(?1))
