-- The agents that own running jobs, and when each was last seen. Jumps through warrener_jobs_running from one owner to
-- the next, so it costs by agents: each step reads the first entry behind the owner before it. ORDER BY and LIMIT, not
-- min(): for that the planner reads all that runs where it expects little.
WITH RECURSIVE owners AS (
  (SELECT job.owner FROM warrener_jobs AS job WHERE job.state = 'running' ORDER BY job.owner LIMIT 1)
  UNION ALL
  SELECT (
    SELECT job.owner
    FROM warrener_jobs AS job
    WHERE job.state = 'running' AND job.owner > owners.owner
    ORDER BY job.owner
    LIMIT 1
  )
  FROM owners
  WHERE owners.owner IS NOT NULL
)
SELECT owners.owner, agent.last_seen_at
FROM owners
LEFT JOIN warrener_agents AS agent ON agent.agent_id = owners.owner
WHERE owners.owner IS NOT NULL
