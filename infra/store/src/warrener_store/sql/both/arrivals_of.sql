-- What has happened for a schedule and is still open.
SELECT {arrival}
FROM warrener_arrivals AS arrival
WHERE arrival.schedule = $1 AND arrival.event IS NOT NULL
ORDER BY arrival.told_at, arrival.event_id
