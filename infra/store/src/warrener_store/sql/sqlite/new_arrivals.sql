-- What is to be decided about.
SELECT {arrival}
FROM warrener_arrivals AS arrival
WHERE arrival.schedule = ?1 AND arrival.event IS NOT NULL AND arrival.nominal_at IS NULL
ORDER BY arrival.told_at, arrival.event_id
LIMIT ?2
