-- Claim jobs that were found lost: move their lease_until. There is one writer at a time, so no two claim the same.
UPDATE warrener_jobs
SET lease_until = ?2, version = version + 1
WHERE job_id IN (SELECT value FROM json_each(?1))
