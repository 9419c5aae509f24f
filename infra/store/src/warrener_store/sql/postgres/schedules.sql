-- Schedules of these names, or all.
SELECT {schedule}
FROM warrener_schedules AS schedule
WHERE $1::text[] IS NULL OR schedule.name = ANY($1::text[])
ORDER BY schedule.name
