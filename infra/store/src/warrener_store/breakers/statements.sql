-- name: breakers
-- All breakers that have ever been open: few.
SELECT {breaker}
FROM warrener_breakers
ORDER BY name

-- name: put_breaker
-- Insert a breaker in its first version, or make it the next one: only from the version before.
INSERT INTO warrener_breakers AS held ({breaker})
SELECT $1::text, $2::integer, $3::text, $4::boolean, $5::timestamptz, $6::timestamptz, $7::integer, $8::integer, $9::text,
  $10::text, $11::text
WHERE $2 = 1 OR EXISTS (SELECT 1 FROM warrener_breakers WHERE name = $1)
ON CONFLICT (name) DO UPDATE SET
  version = excluded.version,
  state = excluded.state,
  manual = excluded.manual,
  since = excluded.since,
  until = excluded.until,
  times_opened = excluded.times_opened,
  probes_succeeded = excluded.probes_succeeded,
  reason = excluded.reason,
  job_types = excluded.job_types,
  policy = excluded.policy
WHERE held.version = excluded.version - 1
RETURNING name
