-- Nothing is expected of these any more.
DELETE FROM warrener_schedule_watches WHERE name IN (SELECT value FROM json_each(?1))
