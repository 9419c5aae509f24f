-- Forget schedules; their ticks stay.
DELETE FROM warrener_schedules WHERE name = ANY($1::text[])
