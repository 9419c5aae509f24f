-- name: agents
-- Agents that were seen then or later, the last seen first. Without an index: every heartbeat would pay for it, and
-- agents that are gone are deleted.
SELECT {agent}
FROM warrener_agents
WHERE last_seen_at >= $1
ORDER BY last_seen_at DESC, agent_id DESC

-- name: agents_by_id
-- The agents of these ids.
SELECT {agent}
FROM warrener_agents
WHERE agent_id = ANY($1::text[])

-- name: put_agents
-- Insert or update agents; an older heartbeat does not replace a newer one. An agent belongs to its broker user until it
-- has ended, or was not seen since $15.
INSERT INTO warrener_agents AS held ({agent})
SELECT {agent}
FROM {batch agent_id text, host text, pid integer, queues text, slots integer, running integer, draining boolean,
  started_at timestamptz, last_seen_at timestamptz, job_types text, free_slots text, trouble text,
  code_version text, broker_user text, alive_since timestamptz} AS batch
WHERE true
ORDER BY batch.agent_id
ON CONFLICT (agent_id) DO UPDATE SET
  host = excluded.host,
  pid = excluded.pid,
  queues = excluded.queues,
  slots = excluded.slots,
  running = excluded.running,
  draining = excluded.draining,
  started_at = excluded.started_at,
  last_seen_at = excluded.last_seen_at,
  job_types = excluded.job_types,
  free_slots = excluded.free_slots,
  trouble = excluded.trouble,
  code_version = excluded.code_version,
  broker_user = excluded.broker_user
WHERE held.last_seen_at <= excluded.last_seen_at AND (
  held.broker_user IS NULL OR held.broker_user = excluded.broker_user OR (held.draining AND held.running = 0)
  OR held.last_seen_at < ($15::timestamptz[])[1]
)

-- name: job_types
-- The job types of these names, or all.
SELECT {job_type}
FROM warrener_job_types
WHERE $1::text[] IS NULL OR name = ANY($1::text[])

-- name: put_job_types
-- Insert or replace job types by name. A job type belongs to its broker user while it is stored; with $12 another user
-- takes it over. Of one user, the agent that started last declares it; where one does not say when it started, the last
-- to speak.
INSERT INTO warrener_job_types AS held ({job_type})
SELECT {job_type}
FROM {batch name text, queue text, arguments_schema text, result_schema text, guarantee text, policy text,
  description text, announced_by text, announced_at timestamptz,
  broker_user text, started_at timestamptz, takes_over boolean} AS batch
WHERE true
ORDER BY batch.name
ON CONFLICT (name) DO UPDATE SET
  queue = excluded.queue,
  arguments_schema = excluded.arguments_schema,
  result_schema = excluded.result_schema,
  guarantee = excluded.guarantee,
  policy = excluded.policy,
  description = excluded.description,
  announced_by = excluded.announced_by,
  announced_at = excluded.announced_at,
  broker_user = excluded.broker_user,
  started_at = excluded.started_at
WHERE CASE
  WHEN held.broker_user IS NULL OR held.broker_user = excluded.broker_user THEN
    CASE
      WHEN held.started_at < excluded.started_at THEN true
      WHEN held.started_at > excluded.started_at THEN false
      ELSE held.announced_at <= excluded.announced_at
    END
  ELSE ($12::boolean[])[1]
END
