-- Take the idempotency keys from jobs that are over: another job may have them.
UPDATE warrener_jobs
SET idempotency_key = NULL, version = version + 1
WHERE job_id = ANY ($1::uuid[]) AND finished_at IS NOT NULL AND idempotency_key IS NOT NULL
