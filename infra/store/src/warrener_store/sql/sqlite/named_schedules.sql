-- Which of these names are schedules.
SELECT name FROM warrener_schedules WHERE name IN (SELECT value FROM json_each(?1))
