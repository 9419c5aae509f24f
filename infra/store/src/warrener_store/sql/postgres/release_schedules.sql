-- The jobs whose ends these schedules wait for were rejected.
UPDATE warrener_schedules AS schedule SET last_job_id = NULL
FROM unnest($1::text[], $2::uuid[]) AS told (name, job_id)
WHERE schedule.name = told.name AND schedule.last_job_id = told.job_id
