-- Nothing from before that time counts any more.
UPDATE warrener_schedule_watches SET since = max(since, ?2) WHERE name IN (SELECT value FROM json_each(?1))
