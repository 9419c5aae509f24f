-- What a schedule waits for, and what may be bound for it.
INSERT INTO warrener_triggers (schedule, bindings) VALUES (?, ?)
ON CONFLICT (schedule) DO UPDATE SET bindings = excluded.bindings
