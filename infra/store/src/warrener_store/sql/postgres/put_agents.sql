-- Insert or update agents; an older word does not replace a newer one.
INSERT INTO warrener_agents AS held (
  agent_id, host, pid, queues, slots, running, draining, started_at, last_seen_at
)
SELECT *
FROM unnest(
  $1::text[], $2::text[], $3::integer[], $4::text[], $5::integer[], $6::integer[], $7::boolean[],
  $8::timestamptz[], $9::timestamptz[]
) AS told (
  agent_id, host, pid, queues, slots, running, draining, started_at, last_seen_at
)
ORDER BY told.agent_id
ON CONFLICT (agent_id) DO UPDATE SET
  host = excluded.host,
  pid = excluded.pid,
  queues = excluded.queues,
  slots = excluded.slots,
  running = excluded.running,
  draining = excluded.draining,
  started_at = excluded.started_at,
  last_seen_at = excluded.last_seen_at
WHERE held.last_seen_at <= excluded.last_seen_at
