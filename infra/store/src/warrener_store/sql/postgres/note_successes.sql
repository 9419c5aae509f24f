-- The newest success of schedules that are watched.
UPDATE warrener_schedule_watches AS watch
SET success_tick = told.success_tick, succeeded_at = told.succeeded_at
FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[]) AS told (name, success_tick, succeeded_at)
WHERE watch.name = told.name AND (watch.success_tick IS NULL OR watch.success_tick < told.success_tick)
