-- Insert a breaker in its first version, or make it the next one: only from the version before.
INSERT INTO warrener_breakers (
  name, version, state, by_hand, since, until, opened, succeeded, reason, job_types, policy
)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11
WHERE ?2 = 1 OR EXISTS (SELECT 1 FROM warrener_breakers WHERE name = ?1)
ON CONFLICT (name) DO UPDATE SET
  version = excluded.version,
  state = excluded.state,
  by_hand = excluded.by_hand,
  since = excluded.since,
  until = excluded.until,
  opened = excluded.opened,
  succeeded = excluded.succeeded,
  reason = excluded.reason,
  job_types = excluded.job_types,
  policy = excluded.policy
WHERE version = excluded.version - 1
RETURNING name
