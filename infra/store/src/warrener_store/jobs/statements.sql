-- name: queue_heads
-- Each queue that has queued jobs, when the first of the published ones was dispatched, and whether some are
-- unpublished. From queue to queue by the index: as many lookups as queues, however many jobs wait.
WITH RECURSIVE heads AS (
  SELECT min(queue) AS queue FROM warrener_jobs WHERE state = 'queued'
  UNION ALL
  SELECT (SELECT min(job.queue) FROM warrener_jobs AS job WHERE job.state = 'queued' AND job.queue > heads.queue)
  FROM heads
  WHERE heads.queue IS NOT NULL
)
SELECT
  heads.queue,
  (
    SELECT job.dispatched_at
    FROM warrener_jobs AS job
    WHERE job.state = 'queued' AND job.queue = heads.queue AND job.dispatched_at IS NOT NULL
    ORDER BY job.dispatched_at
    LIMIT 1
  ) AS oldest,
  EXISTS (
    SELECT 1 FROM warrener_jobs AS job
    WHERE job.state = 'queued' AND job.queue = heads.queue AND job.dispatched_at IS NULL
  ) AS unpublished
FROM heads
WHERE heads.queue IS NOT NULL

-- name: queued_groups
-- The number of published queued jobs of a queue, by the columns that let jobs share a message; and how many of them
-- are settled.
SELECT job_type, policy, count(*) AS jobs, sum(CASE WHEN dispatched_at <= $2 THEN 1 ELSE 0 END) AS settled
FROM (
  SELECT job_type, policy, dispatched_at
  FROM warrener_jobs
  WHERE state = 'queued' AND queue = $1 AND dispatched_at IS NOT NULL
  ORDER BY dispatched_at, job_id
  LIMIT $3
) AS published
GROUP BY job_type, policy
ORDER BY job_type, policy

-- name: oldest_queued
-- The published queued jobs of a queue, the first dispatched first.
SELECT job_id, dispatched_at
FROM warrener_jobs
WHERE state = 'queued' AND queue = $1 AND dispatched_at <= $2
ORDER BY dispatched_at, job_id
LIMIT $3

-- name: unpublished_jobs
-- Queued jobs whose dispatch the broker does not have. Jobs that were just changed are left to the caller that
-- changed them.
SELECT {job}
FROM warrener_jobs AS job
WHERE
  job.state = 'queued' AND job.queue = $1 AND job.dispatched_at IS NULL AND job.updated_at <= $2
  AND job.job_id > $4
ORDER BY job.job_id
LIMIT $3

-- name: accepted_at
-- The position of a job in lists.
SELECT accepted_at
FROM warrener_jobs
WHERE job_id = $1

-- name: lost_attempts
-- The attempts that were lost with an agent, by the index of losses.
SELECT
  job_id, attempt, outcome, agent_id, dispatched_at, started_at, finished_at, error, verdict
FROM warrener_attempts
WHERE outcome = 'lost' AND agent_id = $1
ORDER BY finished_at DESC
LIMIT $2

-- name: attempts_of
-- The attempts of these jobs that are over, in order. A successful attempt is inlined in the job's own row
-- (`rules.py`), unless it was stored as a row of its own.
SELECT
  job_id, attempt, outcome, agent_id, dispatched_at, started_at, finished_at, error, verdict
FROM warrener_attempts
WHERE job_id = ANY($1::uuid[])
UNION ALL
SELECT
  job_id, attempt, 'succeeded', agent_id, dispatched_at, run_started_at, run_finished_at, NULL, 'done'
FROM warrener_jobs AS job
WHERE
  job_id = ANY($1::uuid[]) AND run_finished_at IS NOT NULL
  AND NOT EXISTS (
    SELECT 1 FROM warrener_attempts AS kept WHERE kept.job_id = job.job_id AND kept.attempt = job.attempt
  )
ORDER BY job_id, attempt

-- name: failed_attempts
-- The last attempts of these jobs that went wrong: few of the last ones, however often a job has snoozed. Of each error
-- its beginning, which has the kind and the type: to parse all of it takes twenty times as long, and only rules need
-- the base classes.
SELECT job_id, attempt, agent_id, started_at, finished_at, error, base_classes, verdict
FROM (
  SELECT
    past.job_id, past.attempt, past.agent_id, past.started_at, past.finished_at, past.verdict,
    substr(past.error, 1, 300) AS error,
    CASE WHEN strpos(job.policy, '"retry_rules"') > 0 THEN past.error::json ->> 'base_classes' END AS base_classes,
    row_number() OVER (PARTITION BY past.job_id ORDER BY past.attempt DESC) AS place
  FROM warrener_jobs AS job
  JOIN warrener_attempts AS past
    ON past.job_id = job.job_id AND past.attempt > job.attempt - 100 AND past.attempt > job.settled_attempt
  WHERE
    job.job_id = ANY($1::uuid[]) AND past.job_id = ANY($1::uuid[])
    AND past.outcome <> 'released' AND past.error IS NOT NULL
) AS recent
WHERE place <= 10
ORDER BY job_id, attempt

-- name: count_jobs
-- The number of jobs of each type in each queue and state: a handful of rows, however many jobs there are.
SELECT job_type, queue, state, CAST(sum(jobs) AS bigint) AS jobs
FROM warrener_job_counts
GROUP BY job_type, queue, state
HAVING sum(jobs) > 0
ORDER BY job_type, queue, state

-- name: cancelled_among
-- The marks of cancelled trees among these jobs.
SELECT job_id, reason, cancelled_at
FROM warrener_cancelled_trees
WHERE job_id = ANY($1::uuid[])

-- name: checkpoints_of
-- The newest checkpoint of each of these jobs that has one.
SELECT job_id, attempt, number, state, saved_at
FROM warrener_checkpoints
WHERE job_id = ANY($1::uuid[])

-- name: children_of
-- The child jobs of these, but for those that undo; whether they are over, and whether detached. A job is over if and only if it has an
-- end. A page of them in the order of ids; MATERIALIZED keeps PostgreSQL from reading all jobs in that order.
WITH theirs AS MATERIALIZED (
  SELECT job_id, parent_id, finished_at IS NOT NULL, {is_detached}
  FROM warrener_jobs
  WHERE parent_id = ANY($1::uuid[]) AND NOT {is_undo}
)
SELECT * FROM theirs WHERE job_id > $2 ORDER BY job_id LIMIT $3

-- name: open_children
-- The child jobs of a job that are not over, but for those that undo and detached ones: a page of them, as above.
WITH theirs AS MATERIALIZED (
  SELECT job_id, state, attempt, finished_at, cancel_reason IS NOT NULL
  FROM warrener_jobs
  WHERE parent_id = $1 AND state IN ({open_states}) AND NOT {is_undo} AND NOT {is_detached}
)
SELECT * FROM theirs WHERE job_id > $2 ORDER BY job_id LIMIT $3

-- name: mark_cancelled
-- Mark trees as cancelled; a mark that exists stays as it is, unless the end of a workflow made it: it spares some.
INSERT INTO warrener_cancelled_trees AS held (job_id, reason, cancelled_at)
SELECT * FROM {batch job_id uuid, reason text, cancelled_at timestamptz} AS batch WHERE true
ON CONFLICT (job_id) DO UPDATE SET reason = excluded.reason, cancelled_at = excluded.cancelled_at
WHERE substr(held.reason, {of_end} AND NOT substr(excluded.reason, {of_end}

-- name: keep_checkpoint
-- Store the newest checkpoint of each job. The number counts on only where an attempt knows that of the one before.
INSERT INTO warrener_checkpoints AS held (job_id, attempt, number, state, saved_at)
SELECT * FROM {batch job_id uuid, attempt integer, number integer, state text, saved_at timestamptz} AS batch WHERE true
ON CONFLICT (job_id) DO UPDATE SET
  attempt = excluded.attempt,
  number = excluded.number,
  state = excluded.state,
  saved_at = excluded.saved_at
WHERE (held.attempt, held.number) < (excluded.attempt, excluded.number)

-- name: running_among
-- Those of these jobs that run. IS TRUE keeps both databases to the primary key: an agent's few jobs must not cost a read
-- of all that run.
SELECT job.job_id, job.attempt, job.agent_id, job.lease_until, job.cancel_reason IS NOT NULL AS cancelled
FROM warrener_jobs AS job
WHERE job.job_id = ANY($1::uuid[]) AND (job.state = 'running') IS TRUE

-- name: release_keys
-- Remove the idempotency keys of jobs that are over: another job may use them.
UPDATE warrener_jobs
SET idempotency_key = NULL, version = version + 1
WHERE job_id = ANY ($1::uuid[]) AND finished_at IS NOT NULL AND idempotency_key IS NOT NULL

-- name: job_ids_between
-- The ids that begin alike.
SELECT job_id FROM warrener_jobs WHERE job_id >= $1 AND job_id <= $2 ORDER BY job_id LIMIT $3

-- name: job_ids_by_end
-- The ids that end with these eight characters, by warrener_jobs_end.
SELECT job_id FROM warrener_jobs WHERE substr(CAST(job_id AS text), 29) = $1 LIMIT $2

-- name: job_ids_by_key
-- The ids of the jobs that have a key in any scope. Digits behind equal texts are in one order by every collation; one
-- that takes other texts for equal finds too many.
SELECT job_id FROM warrener_jobs WHERE idempotency_key >= $1 AND idempotency_key <= $2 LIMIT $3

-- name: count_cancel_marks
-- The marks of cancels by user, which is their one argument, or by source; of the newest of them.
SELECT newest.source, newest.arguments, count(*)
FROM (
  SELECT CASE WHEN length(mark.arguments) = 2 THEN mark.source END AS source, mark.arguments
  FROM warrener_jobs AS mark
  WHERE mark.state = 'cancelled' AND mark.job_type = $1
  ORDER BY mark.accepted_at DESC
  LIMIT $2
) AS newest
GROUP BY newest.source, newest.arguments

-- name: running_owners
-- The agents that own running jobs, and when each was last seen. Jumps through warrener_jobs_running from one agent_id
-- to the next, so it costs by agents: each step reads the first entry behind the agent before it. ORDER BY and LIMIT,
-- not min(): for that PostgreSQL's planner reads all running jobs if it expects few.
WITH RECURSIVE owners AS (
  SELECT (
    SELECT job.agent_id
    FROM warrener_jobs AS job /* INDEXED BY warrener_jobs_running */
    WHERE job.state = 'running' AND job.agent_id > ''
    ORDER BY job.agent_id
    LIMIT 1
  ) AS agent_id
  UNION ALL
  SELECT (
    SELECT job.agent_id
    FROM warrener_jobs AS job /* INDEXED BY warrener_jobs_running */
    WHERE job.state = 'running' AND job.agent_id > owners.agent_id
    ORDER BY job.agent_id
    LIMIT 1
  )
  FROM owners
  WHERE owners.agent_id IS NOT NULL
)
SELECT owners.agent_id, agent.last_seen_at
FROM owners
LEFT JOIN warrener_agents AS agent ON agent.agent_id = owners.agent_id
WHERE owners.agent_id IS NOT NULL

-- name: running_of
-- All attempts that these agents run, by the index of running jobs.
SELECT job.job_id, job.attempt, job.agent_id, job.lease_until, job.cancel_reason IS NOT NULL AS cancelled
FROM warrener_jobs AS job /* INDEXED BY warrener_jobs_running */
WHERE job.state = 'running' AND job.agent_id = ANY($1::text[])

-- name: derived_sources
-- The sources of jobs with derived ids. Jumps through warrener_jobs_source from one to the next.
WITH RECURSIVE sources AS (
  SELECT (
    SELECT job.source FROM warrener_jobs AS job /* INDEXED BY warrener_jobs_source */
    WHERE substr(CAST(job.job_id AS text), 15, 1) = '5' AND job.source > ''
    ORDER BY job.source LIMIT 1
  ) AS source
  UNION ALL
  SELECT (
    SELECT job.source FROM warrener_jobs AS job /* INDEXED BY warrener_jobs_source */
    WHERE substr(CAST(job.job_id AS text), 15, 1) = '5' AND job.source > sources.source
    ORDER BY job.source LIMIT 1
  )
  FROM sources
  WHERE sources.source IS NOT NULL
)
SELECT source FROM sources WHERE source IS NOT NULL LIMIT $1

-- name: held_unique_keys
-- These unique keys, with the jobs that hold them.
SELECT {job}, {unique_key}
FROM warrener_unique_keys AS held
JOIN warrener_jobs AS job ON job.job_id = held.job_id
WHERE held.unique_key = ANY($1::text[])

-- name: unique_key_of
-- The unique key that a job holds.
SELECT {unique_key} FROM warrener_unique_keys AS held WHERE held.job_id = $1

-- name: put_again_unique_key
-- Only the job that was read is followed: another one may have got the key meanwhile.
ON CONFLICT (unique_key) DO UPDATE SET
  job_id = excluded.job_id, previous = excluded.previous, replaced = excluded.replaced, since = excluded.since
WHERE held.job_id = excluded.previous
