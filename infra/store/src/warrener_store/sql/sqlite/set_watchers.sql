-- Write the reply addresses of one job that was found not to be over.
UPDATE warrener_jobs
SET watchers = ?2, version = version + 1
WHERE job_id = ?1
