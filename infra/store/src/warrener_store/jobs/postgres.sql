-- name: insert_jobs
-- Insert the jobs that are new by id and by idempotency key, and count them; return their number, and their ids if
-- some were not new.
--
-- One array for each column: the fastest way to pass a batch, and one statement for any size, so it is prepared once.
-- If all rows hold one value, the array may hold it once: `unnest` fills it up with NULL, and a column that cannot be
-- NULL then takes the first value; an empty array is all NULL. The rows are inserted in the order given: of two for
-- the same job, the first.
WITH fresh AS (
  INSERT INTO warrener_jobs ({new_columns}, deadline_wake_at)
  SELECT
    {new_values},
    CASE WHEN finished_at IS NULL THEN deadline_at END
  FROM unnest({new_arrays}) AS new_job ({new_columns})
  ON CONFLICT DO NOTHING
  RETURNING job_id, job_type, queue, state
),
counted AS (
  -- After all rows are locked and in one order, so that two batches cannot wait for each other.
  INSERT INTO warrener_job_counts AS held (job_type, queue, state, slot, jobs)
  SELECT job_type, queue, state, pg_backend_pid() % 16, count(*)
  FROM fresh
  GROUP BY job_type, queue, state
  ORDER BY job_type, queue, state
  ON CONFLICT (job_type, queue, state, slot) DO UPDATE SET jobs = held.jobs + excluded.jobs
)
SELECT count(*), CASE WHEN count(*) < cardinality($1::uuid[]) THEN array_agg(job_id) END FROM fresh

-- name: insert_unique_jobs
-- Insert jobs whose unique keys are free, or held by the jobs that were read; return as insert_jobs does. Each of the new
-- jobs names the job that must get the key for it. A job that is to be replaced must still wait.
WITH found AS (
  SELECT locked.job_id, batch.reason
  FROM (
    SELECT waiting, reason FROM unnest({unique_arrays}) AS one ({unique_columns}) WHERE waiting IS NOT NULL ORDER BY waiting
  ) AS batch
  CROSS JOIN LATERAL (
    SELECT job.job_id
    FROM warrener_jobs AS job
    WHERE
      job.job_id = batch.waiting AND (job.state = 'waiting') IS TRUE AND job.attempt = 0 AND job.cancel_reason IS NULL
    FOR NO KEY UPDATE
  ) AS locked
),
replaced AS (
  UPDATE warrener_jobs AS job
  SET cancel_reason = found.reason, wake_at = {unique_at}, updated_at = {unique_at}, version = job.version + 1
  FROM found
  WHERE job.job_id = ANY (ARRAY[found.job_id])
  RETURNING job.job_id
),
taken AS (
  INSERT INTO warrener_unique_keys AS held (unique_key, job_id, previous, replaced, since)
  SELECT batch.unique_key, batch.job_id, batch.previous, batch.replaced, batch.since
  FROM unnest({unique_arrays}) AS batch ({unique_columns})
  WHERE batch.waiting IS NULL OR (batch.waiting IN (SELECT replaced.job_id FROM replaced)) IS TRUE
  ORDER BY batch.unique_key
  {put_again_unique_key}
  RETURNING job_id
),
fresh AS (
  INSERT INTO warrener_jobs ({new_columns}, deadline_wake_at)
  SELECT
    {new_values},
    CASE WHEN finished_at IS NULL THEN deadline_at END
  FROM unnest({new_arrays}, {new_holders}) AS new_job ({new_columns}, holder_id)
  WHERE (holder_id IN (SELECT taken.job_id FROM taken)) IS TRUE
  ON CONFLICT DO NOTHING
  RETURNING job_id, job_type, queue, state
),
counted AS (
  -- After all rows are locked and in one order, so that two batches cannot wait for each other.
  INSERT INTO warrener_job_counts AS held (job_type, queue, state, slot, jobs)
  SELECT job_type, queue, state, pg_backend_pid() % 16, count(*)
  FROM fresh
  GROUP BY job_type, queue, state
  ORDER BY job_type, queue, state
  ON CONFLICT (job_type, queue, state, slot) DO UPDATE SET jobs = held.jobs + excluded.jobs
)
SELECT count(*), CASE WHEN count(*) < cardinality($1::uuid[]) THEN array_agg(job_id) END FROM fresh

-- name: jobs_by_id
-- The jobs of these ids.
SELECT {job}
FROM warrener_jobs AS job
WHERE job.job_id = ANY($1::uuid[])

-- name: jobs_by_id_or_key
-- The jobs that prevent an insert, or that a text names. A union: each half goes by its own index.
SELECT {job} FROM warrener_jobs AS job WHERE job.job_id = ANY($1::uuid[])
UNION ALL
SELECT {job} FROM warrener_jobs AS job
WHERE job.idempotency_key = ANY($2::text[]) AND NOT job.job_id = ANY($1::uuid[])

-- name: save_jobs
-- Write the state of jobs, with their attempts and dead letters, and move the counts.
--
-- A job is written only if its version is still the one that was decided on and it is not over.
--
-- If all rows hold one value, its array holds it once; if all hold NULL, it is empty: `unnest` fills both up with
-- NULL. Only the ids stand there one for each row.
--
-- The rows are looked up by key one after another (CROSS JOIN LATERAL … OFFSET 0 is never rearranged) and written by
-- their place (ctid), in the order given, that of their ids, which prevents deadlocks between two supervisors with
-- overlapping batches. One lookup a row, no lock before the write, and no plan that scans the jobs, whatever
-- statistics the planner had.
WITH changed AS (
  -- The version is compared again: a row that changed while it was waited for is left alone.
  UPDATE warrener_jobs AS job
  SET
    {saved_changes},
    deadline_wake_at = CASE
      WHEN cardinality({saved.finished_at}) <> 1 AND batch.finished_at IS NULL
        AND cardinality({saved.ending}) <> 1 AND batch.ending IS NULL
      THEN job.deadline_wake_at
    END
  FROM unnest({saved_arrays}) AS batch ({saved_columns})
  CROSS JOIN LATERAL (
    SELECT ctid AS place, queue AS left_queue, state AS left_state FROM warrener_jobs
    WHERE job_id = batch.job_id OFFSET 0
  ) AS found
  WHERE job.ctid = found.place AND job.version = coalesce(batch.held, ({saved.held})[1]) AND job.finished_at IS NULL
  RETURNING job.job_id, job.job_type, job.queue, job.state, found.left_queue, found.left_state
),
ended AS (
  -- IS TRUE: a hashed list of ids and no join, which would compare each with each where the planner expects few.
  INSERT INTO warrener_attempts ({attempt_columns})
  SELECT past.*
  FROM unnest({attempt_arrays}) AS past ({attempt_columns})
  WHERE (past.job_id IN (SELECT changed.job_id FROM changed)) IS TRUE
  ON CONFLICT DO NOTHING
),
buried AS (
  INSERT INTO warrener_dead_letters ({dead_letter_columns})
  SELECT dead_letter.*
  FROM unnest({dead_letter_arrays}) AS dead_letter ({dead_letter_columns})
  WHERE (dead_letter.job_id IN (SELECT changed.job_id FROM changed)) IS TRUE
  ON CONFLICT DO NOTHING
),
counted AS (
  -- Groups first, so all jobs are locked before the first count is; and in one order.
  INSERT INTO warrener_job_counts AS held (job_type, queue, state, slot, jobs)
  SELECT moved.job_type, moved.queue, moved.state, pg_backend_pid() % 16, sum(moved.jobs)
  FROM (
    SELECT job_type, left_queue AS queue, left_state AS state, -1 AS jobs FROM changed
    UNION ALL
    SELECT job_type, queue, state, 1 AS jobs FROM changed
  ) AS moved
  GROUP BY moved.job_type, moved.queue, moved.state
  HAVING sum(moved.jobs) <> 0
  ORDER BY moved.job_type, moved.queue, moved.state
  ON CONFLICT (job_type, queue, state, slot) DO UPDATE SET jobs = held.jobs + excluded.jobs
)
SELECT job_id FROM changed

-- name: succeed_jobs
-- End jobs by the success of their current attempt, and move the counts. An array holds a value that is equal in all
-- rows once, and a result that is NULL in all of them not at all.
--
-- Looked up by key and written by place, as in save_jobs. The conditions are on the row found: on the job itself, a
-- plan that was made while the table was empty would read all jobs in flight.
WITH changed AS (
  -- The version is compared again: a row that changed while it was waited for is left alone, and judged as it is then.
  -- Where it stands does not say so: PostgreSQL of before November 2025 does not look at the ctid again once it has
  -- waited. Versions only grow; "=" would do too, but by it the rows could be joined in a plan that reads all of them.
  UPDATE warrener_jobs AS job
  SET
    version = job.version + 1,
    state = 'succeeded',
    agent_id = coalesce(batch.agent_id, ($3::text[])[1]),
    due_at = NULL,
    wake_at = NULL,
    lease_until = NULL,
    deadline_wake_at = NULL,
    finished_at = $8::timestamptz,
    updated_at = $8::timestamptz,
    result = CASE cardinality($4::text[]) WHEN 1 THEN ($4::text[])[1] ELSE batch.result END,
    run_started_at = coalesce(batch.started_at, ($5::timestamptz[])[1]),
    run_finished_at = coalesce(batch.finished_at, ($6::timestamptz[])[1])
  FROM unnest(
    $1::uuid[], $2::integer[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::text[]
  ) AS batch (
    job_id, attempt, agent_id, result, started_at, finished_at, job_type
  )
  CROSS JOIN LATERAL (
    SELECT ctid AS place, version, state AS left_state, attempt, ending, due_at, updated_at, job_type, agent_id
    FROM warrener_jobs WHERE job_id = batch.job_id OFFSET 0
  ) AS found
  WHERE
    job.ctid = found.place
    AND job.version <= found.version
    AND found.attempt = coalesce(batch.attempt, ($2::integer[])[1])
    AND found.left_state IN ({in_flight})
    AND found.ending IS NULL
    AND (
      cardinality($7::text[]) = 0 OR (
        found.job_type = coalesce(batch.job_type, ($7::text[])[1])
        AND (
          found.left_state <> 'running' OR found.agent_id IS NULL
          OR found.agent_id = coalesce(batch.agent_id, ($3::text[])[1])
        )
      )
    )
  RETURNING
    {succeeded},
    CASE WHEN job.traceparent IS NOT NULL AND found.left_state <> 'running' THEN found.updated_at END AS waited_since,
    CASE WHEN job.traceparent IS NOT NULL THEN found.due_at END AS was_due_at,
    job.queue,
    found.left_state
),
counted AS (
  -- Groups first, so all jobs are locked before the first count is; and in one order.
  INSERT INTO warrener_job_counts AS held (job_type, queue, state, slot, jobs)
  SELECT moved.job_type, moved.queue, moved.state, pg_backend_pid() % 16, sum(moved.jobs)
  FROM (
    SELECT job_type, queue, left_state AS state, -1 AS jobs FROM changed
    UNION ALL
    SELECT job_type, queue, 'succeeded', 1 AS jobs FROM changed
  ) AS moved
  GROUP BY moved.job_type, moved.queue, moved.state
  ORDER BY moved.job_type, moved.queue, moved.state
  ON CONFLICT (job_type, queue, state, slot) DO UPDATE SET jobs = held.jobs + excluded.jobs
)
SELECT * FROM changed

-- name: claim_due
-- Claim jobs that are due: move their wake_at. SKIP LOCKED: rows that another caller is claiming belong to it.
--
-- warrener_jobs_due holds only jobs that are not over, so finished jobs cost nothing here. IS TRUE keeps PostgreSQL from
-- the index by state, where statistics that are older than a hundred thousand suspended jobs think them few.
WITH due AS (
  SELECT job_id, wake_at
  FROM warrener_jobs
  WHERE (state = ANY($1::text[])) IS TRUE AND wake_at <= $2::timestamptz
  ORDER BY wake_at, job_id
  LIMIT $4::bigint
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE warrener_jobs AS job
SET wake_at = $3::timestamptz, version = job.version + 1
FROM due
WHERE job.job_id = due.job_id
RETURNING {job}, due.wake_at AS was_due_at

-- name: claim_deadlines
-- Claim jobs whose deadline has passed: move deadline_wake_at, which is null once a job is over or begins to end.
WITH due AS (
  SELECT job_id, deadline_wake_at
  FROM warrener_jobs
  WHERE deadline_wake_at <= $1::timestamptz
  ORDER BY deadline_wake_at, job_id
  LIMIT $3::bigint
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE warrener_jobs AS job
SET deadline_wake_at = $2::timestamptz, version = job.version + 1
FROM due
WHERE job.job_id = due.job_id
RETURNING {job}, due.deadline_wake_at AS was_due_at

-- name: claim_lost
-- Claim running jobs whose loss is to be declared: move lease_until. SKIP LOCKED: rows that another caller is
-- claiming or saving belong to it. Each is looked up by its key, in the order of ids (LATERAL with a lock is never
-- rearranged, IS TRUE keeps to that index).
WITH found AS (
  SELECT held.job_id
  FROM (SELECT unnest($1::uuid[]) AS job_id ORDER BY 1) AS batch
  CROSS JOIN LATERAL (
    SELECT job.job_id
    FROM warrener_jobs AS job
    WHERE job.job_id = batch.job_id AND job.lease_until <= $2::timestamptz AND (job.state = 'running') IS TRUE
    FOR NO KEY UPDATE SKIP LOCKED
  ) AS held
)
UPDATE warrener_jobs AS job
SET lease_until = $3::timestamptz, version = job.version + 1
FROM found
WHERE job.job_id = ANY (ARRAY[found.job_id])
RETURNING {job}

-- name: add_watchers
-- Add reply addresses to jobs that are not over; each stands once, at its last place; the oldest are dropped.
WITH batch AS (
  SELECT * FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS batch (job_id, address, place)
),
live AS (
  SELECT job.job_id, job.watchers
  FROM warrener_jobs AS job
  WHERE job.job_id IN (SELECT batch.job_id FROM batch) AND job.finished_at IS NULL
  ORDER BY job.job_id
  FOR NO KEY UPDATE OF job
),
everybody AS (
  SELECT live.job_id, known.address, 0 AS later, known.place
  FROM live CROSS JOIN json_array_elements_text(live.watchers::json) WITH ORDINALITY AS known (address, place)
  UNION ALL
  SELECT batch.job_id, batch.address, 1 AS later, batch.place
  FROM batch
),
latest AS (
  SELECT job_id, address, max(later * 1000000000 + place) AS place
  FROM everybody
  GROUP BY job_id, address
),
ranked AS (
  SELECT job_id, address, place, row_number() OVER (PARTITION BY job_id ORDER BY place DESC) AS rank
  FROM latest
),
kept AS (
  SELECT job_id, json_agg(address ORDER BY place) AS watchers
  FROM ranked
  WHERE rank <= $3::bigint
  GROUP BY job_id
)
UPDATE warrener_jobs AS job
SET watchers = kept.watchers::text, version = job.version + 1
FROM live
JOIN kept ON kept.job_id = live.job_id
WHERE job.job_id = live.job_id
RETURNING job.job_id

-- name: mark_unpublished
-- Record that the broker has not taken these dispatches.
--
-- Locked in the order of ids and looked up by key, as in claim_lost.
WITH held AS (
  SELECT found.job_id, batch.at
  FROM (
    SELECT * FROM unnest($1::uuid[], $2::integer[], $3::timestamptz[]) AS batch (job_id, attempt, at) ORDER BY job_id
  ) AS batch
  CROSS JOIN LATERAL (
    SELECT job.job_id
    FROM warrener_jobs AS job
    WHERE
      job.job_id = batch.job_id AND job.attempt = batch.attempt AND (job.state IN ('queued', 'retrying')) IS TRUE
    FOR NO KEY UPDATE
  ) AS found
)
UPDATE warrener_jobs AS job
SET dispatched_at = NULL, updated_at = held.at, version = job.version + 1
FROM held
WHERE job.job_id = ANY (ARRAY[held.job_id])

-- name: wake_held
-- Make jobs due now that were due before and put off, the first due first.
--
-- warrener_jobs_due holds only jobs that are not over, so finished jobs cost nothing here.
WITH held AS (
  SELECT job_id
  FROM warrener_jobs
  WHERE job_type = ANY($1::text[]) AND state IN ('waiting', 'retrying')
    AND due_at <= $2::timestamptz AND wake_at > $3::timestamptz AND wake_at <= $6::timestamptz
    AND queue <> ALL($5::text[])
  ORDER BY due_at, job_id
  LIMIT $4::bigint
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE warrener_jobs AS job
SET wake_at = $2::timestamptz, version = job.version + 1
FROM held
WHERE job.job_id = held.job_id
RETURNING job.job_id
