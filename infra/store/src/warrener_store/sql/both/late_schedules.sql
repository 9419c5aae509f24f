-- Schedules that are late. Who has looked at one and could not decide it has put it off, and its tick is still due:
-- so the index is read beyond that time.
SELECT {schedule}
FROM warrener_schedules AS schedule
WHERE schedule.wake_at <= $2 AND (schedule.wake_at < $1 OR schedule.next_at < $1)
ORDER BY schedule.wake_at, schedule.name
LIMIT $3
