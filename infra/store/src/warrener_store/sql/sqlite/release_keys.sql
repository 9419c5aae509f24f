-- Take the idempotency keys from jobs that are over: another job may have them.
UPDATE warrener_jobs
SET idempotency_key = NULL, version = version + 1
WHERE job_id IN (SELECT value FROM json_each(?1)) AND finished_at IS NOT NULL AND idempotency_key IS NOT NULL
