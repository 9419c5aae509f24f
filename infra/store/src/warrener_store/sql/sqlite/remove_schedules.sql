-- Forget schedules; their ticks stay.
DELETE FROM warrener_schedules WHERE name IN (SELECT value FROM json_each(?1))
