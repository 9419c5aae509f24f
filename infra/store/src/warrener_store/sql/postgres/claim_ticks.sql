-- Claim ticks whose requests are not known to be published.
WITH due AS (
  SELECT schedule, nominal_at
  FROM warrener_ticks
  WHERE wake_at <= $1::timestamptz
  ORDER BY wake_at
  LIMIT $3::bigint
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE warrener_ticks AS tick
SET wake_at = $2::timestamptz
FROM due
WHERE tick.schedule = due.schedule AND tick.nominal_at = due.nominal_at
RETURNING {tick}
