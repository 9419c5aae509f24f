-- That of the tick which waits the longest for the end of a job.
SELECT {arrival}
FROM warrener_arrivals AS arrival
WHERE arrival.schedule = ?1 AND arrival.event IS NOT NULL AND arrival.nominal_at IS NOT NULL
ORDER BY arrival.nominal_at
LIMIT 1
