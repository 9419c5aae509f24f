-- Ticks whose requests are not known to be published.
SELECT {tick}
FROM warrener_ticks AS tick
WHERE tick.wake_at <= ?1
ORDER BY tick.wake_at
LIMIT ?2
