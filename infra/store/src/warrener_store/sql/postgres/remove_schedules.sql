-- Forget schedules and what is expected of them; their ticks stay.
WITH unwatched AS (
  DELETE FROM warrener_schedule_watches WHERE name = ANY($1::text[])
)
DELETE FROM warrener_schedules WHERE name = ANY($1::text[])
