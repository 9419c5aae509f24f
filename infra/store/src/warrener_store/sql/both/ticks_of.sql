-- The ledger of one schedule, the newest first.
SELECT {tick}
FROM warrener_ticks AS tick
WHERE tick.schedule = $1
ORDER BY tick.nominal_at DESC
LIMIT $2
