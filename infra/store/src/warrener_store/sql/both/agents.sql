-- All agents ever heard of, the last seen first.
SELECT
  agent_id, host, pid, queues, slots, running, draining, started_at, last_seen_at
FROM warrener_agents
ORDER BY last_seen_at DESC, agent_id DESC
