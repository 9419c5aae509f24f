-- Insert or update an agent; an older word does not replace a newer one.
INSERT INTO warrener_agents (
  agent_id, host, pid, queues, slots, running, draining, started_at, last_seen_at
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (agent_id) DO UPDATE SET
  host = excluded.host,
  pid = excluded.pid,
  queues = excluded.queues,
  slots = excluded.slots,
  running = excluded.running,
  draining = excluded.draining,
  started_at = excluded.started_at,
  last_seen_at = excluded.last_seen_at
WHERE last_seen_at <= excluded.last_seen_at
