-- Which of these (schedule, nominal_at) have their job, or will have it.
SELECT tick.schedule, tick.nominal_at
FROM json_each(?1) AS told
JOIN warrener_ticks AS tick ON tick.schedule = told.value ->> 0 AND tick.nominal_at = told.value ->> 1
WHERE tick.job_id IS NOT NULL OR tick.fate = 'waiting'
