-- The ledger of one schedule from one nominal time to another, both included, in order.
SELECT {tick}
FROM warrener_ticks AS tick
WHERE tick.schedule = $1 AND tick.nominal_at >= $2 AND tick.nominal_at <= $3
ORDER BY tick.nominal_at
