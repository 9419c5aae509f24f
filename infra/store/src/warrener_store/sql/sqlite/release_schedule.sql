-- The job whose end a schedule waits for was rejected.
UPDATE warrener_schedules SET last_job_id = NULL WHERE name = ?1 AND last_job_id = ?2
