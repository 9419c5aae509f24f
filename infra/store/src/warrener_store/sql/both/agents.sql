-- Agents that were seen then or later, the last seen first. Without an index: heartbeats would pay for it, and agents that
-- are gone are deleted.
SELECT
  agent_id, host, pid, queues, slots, running, draining, started_at, last_seen_at
FROM warrener_agents
WHERE last_seen_at >= $1
ORDER BY last_seen_at DESC, agent_id DESC
