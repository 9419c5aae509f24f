-- Schedules of these names, or all.
SELECT {schedule}
FROM warrener_schedules AS schedule
WHERE ?1 IS NULL OR schedule.name IN (SELECT value FROM json_each(?1))
ORDER BY schedule.name
