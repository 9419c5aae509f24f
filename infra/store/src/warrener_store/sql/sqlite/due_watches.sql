-- Schedules that are watched and to be looked at.
SELECT {watch}, schedule.paused
FROM warrener_schedule_watches AS watch
JOIN warrener_schedules AS schedule ON schedule.name = watch.name
WHERE watch.look_at <= ?1
ORDER BY watch.look_at, watch.name
LIMIT ?2
