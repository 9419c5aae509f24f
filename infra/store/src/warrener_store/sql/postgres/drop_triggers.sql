-- These wait for nothing any more. What is no longer open stays: a repeat of it is still one.
WITH dropped AS (
  DELETE FROM warrener_triggers WHERE schedule = ANY($1::text[])
)
DELETE FROM warrener_arrivals WHERE schedule = ANY($1::text[]) AND event IS NOT NULL
