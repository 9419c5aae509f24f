-- Something that a schedule waits for has happened. Two of one batch may be the same.
INSERT INTO warrener_arrivals (schedule, event_id, told_at, heard_at, upstream, nominal_at, event)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (schedule, event_id) DO NOTHING
