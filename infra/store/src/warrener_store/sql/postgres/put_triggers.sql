-- What schedules wait for, and what may be bound for them.
INSERT INTO warrener_triggers (schedule, bindings)
SELECT * FROM unnest($1::text[], $2::text[]) AS told (schedule, bindings)
ORDER BY told.schedule
ON CONFLICT (schedule) DO UPDATE SET bindings = excluded.bindings
