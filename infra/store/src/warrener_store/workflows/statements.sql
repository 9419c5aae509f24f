-- name: keep_answers
-- Insert the turns of jobs that exist, with the answers with which they begin; one that is stored stays as it is.
INSERT INTO warrener_workflow_turns ({turn})
SELECT batch.*
FROM {batch job_id uuid, attempt integer, answers text, began_at timestamptz, suspension text,
  suspended_at timestamptz} AS batch
WHERE EXISTS (SELECT 1 FROM warrener_jobs AS job WHERE job.job_id = batch.job_id)
ORDER BY batch.job_id, batch.attempt
ON CONFLICT (job_id, attempt) DO NOTHING

-- name: keep_suspensions
-- The same, or write the suspension of a turn that is stored without one.
INSERT INTO warrener_workflow_turns AS held ({turn})
SELECT batch.*
FROM {batch job_id uuid, attempt integer, answers text, began_at timestamptz, suspension text,
  suspended_at timestamptz} AS batch
WHERE EXISTS (SELECT 1 FROM warrener_jobs AS job WHERE job.job_id = batch.job_id)
ORDER BY batch.job_id, batch.attempt
ON CONFLICT (job_id, attempt) DO UPDATE SET
  suspension = excluded.suspension,
  suspended_at = excluded.suspended_at
WHERE held.suspension IS NULL

-- name: turns_of
-- All turns of the generations of these jobs, in order. By the primary key.
SELECT {turn}
FROM warrener_workflow_turns AS held
WHERE
  job_id = ANY($1::uuid[])
  AND attempt >= (SELECT job.generation FROM warrener_jobs AS job WHERE job.job_id = held.job_id)
ORDER BY job_id, attempt

-- name: ended_turns
-- The turns of a job up to that which ended a generation.
SELECT {turn} FROM warrener_workflow_turns WHERE job_id = $1 AND attempt <= $2 ORDER BY attempt

-- name: drop_ended_turns
-- Delete them, but for the last one.
DELETE FROM warrener_workflow_turns WHERE job_id = $1 AND attempt < $2 RETURNING 1

-- name: clear_ended_turn
-- Keep of that one the arguments of the next generation alone ($3): calls of that may have the same ids.
UPDATE warrener_workflow_turns SET answers = '[]', suspension = $3 WHERE job_id = $1 AND attempt = $2 RETURNING 1

-- name: drop_received_signals
-- Delete the signals that earlier generations have received, and that came before a moment; and of all that generations
-- have received those before the last $4 ones.
DELETE FROM warrener_signals
WHERE
  job_id = $1 AND (
    generation < $2 AND received_at < $3
    OR signal_id IN (
      SELECT held.signal_id
      FROM warrener_signals AS held
      WHERE held.job_id = $1 AND held.generation IS NOT NULL
      ORDER BY held.received_at DESC, held.signal_id
      LIMIT 1000000 OFFSET $4
    )
  )
RETURNING 1

-- name: keep_receipts
-- Mark signals that a generation has received.
UPDATE warrener_signals SET generation = $2 WHERE job_id = $1 AND generation IS NULL AND signal_id = ANY($3::text[])
RETURNING 1

-- name: sent_signals
-- The signals of a job without their data, the first received first. By the primary key.
SELECT signal_id, name, received_at
FROM warrener_signals
WHERE job_id = $1 AND generation IS NULL
ORDER BY received_at, signal_id

-- name: last_turns
-- The last turn of each of these jobs.
SELECT {turn}
FROM warrener_workflow_turns AS held
WHERE
  job_id = ANY($1::uuid[])
  AND attempt = (SELECT max(later.attempt) FROM warrener_workflow_turns AS later WHERE later.job_id = held.job_id)

-- name: journal_sizes
-- How many bytes the turns of these jobs have.
SELECT job_id, sum(octet_length(answers) + coalesce(octet_length(suspension), 0))
FROM warrener_workflow_turns AS held
WHERE
  job_id = ANY($1::uuid[])
  AND attempt >= (SELECT job.generation FROM warrener_jobs AS job WHERE job.job_id = held.job_id)
GROUP BY job_id

-- name: keep_signals
-- Insert signals; one that is stored stays as it is, and so is a job that has as many as it may (`bound`). Two writers at
-- once may exceed it by their batches. Counted once a job (MATERIALIZED), and not once for each new signal.
WITH batch AS (
  SELECT given.*
  FROM {batch job_id uuid, signal_id text, name text, data text, received_at timestamptz, bound integer} AS given
),
counted AS MATERIALIZED (
  SELECT job_id, (
    SELECT count(*) FROM warrener_signals AS held WHERE held.job_id = each.job_id AND held.generation IS NULL
  ) AS signals
  FROM (SELECT DISTINCT job_id FROM batch) AS each
)
INSERT INTO warrener_signals ({signal})
SELECT fresh.job_id, signal_id, name, data, received_at
FROM (
  SELECT batch.*, row_number() OVER (PARTITION BY batch.job_id ORDER BY batch.received_at) AS place
  FROM batch
  WHERE NOT EXISTS (
    SELECT 1 FROM warrener_signals AS held WHERE held.job_id = batch.job_id AND held.signal_id = batch.signal_id
  )
) AS fresh
JOIN counted ON counted.job_id = fresh.job_id
WHERE fresh.place + counted.signals <= fresh.bound
ORDER BY fresh.job_id, signal_id
ON CONFLICT (job_id, signal_id) DO NOTHING

-- name: signals_among
-- Those of these signals that are stored; $2: each job's id and the signal's, as one text.
SELECT job_id, signal_id
FROM warrener_signals
WHERE job_id = ANY($1::uuid[]) AND job_id::text || signal_id = ANY($2::text[])

-- name: signals_of
-- The first $4 signals of each of these names ($2: the job's id and the name), but for received ones ($3: the job's id
-- and the signal's). By the primary key, and the data of those that are returned alone.
SELECT {held_signal}
FROM (
  SELECT job_id, signal_id, row_number() OVER (PARTITION BY job_id, name ORDER BY received_at, signal_id) AS place
  FROM warrener_signals
  WHERE
    job_id = ANY($1::uuid[]) AND job_id::text || name = ANY($2::text[]) AND generation IS NULL
    AND NOT (job_id::text || signal_id = ANY($3::text[]))
) AS found
JOIN warrener_signals AS held ON held.job_id = found.job_id AND held.signal_id = found.signal_id
WHERE found.place <= $4
ORDER BY held.job_id, held.received_at, held.signal_id

-- name: late_turns
-- Those of these jobs that ended without success and have more suspensions than were counted: some came after the end.
SELECT job.job_id
FROM warrener_jobs AS job
WHERE
  job.job_id = ANY($1::uuid[]) AND job.finished_at IS NOT NULL AND job.state <> 'succeeded'
  AND job.suspensions < (
    SELECT count(turn.suspension) FROM warrener_workflow_turns AS turn
    WHERE turn.job_id = job.job_id AND turn.attempt >= job.generation
  )

-- name: child_status
-- How far these jobs are.
SELECT job_id, state, attempt, finished_at, cancel_reason IS NOT NULL
FROM warrener_jobs
WHERE job_id = ANY($1::uuid[])

-- name: failed_members
-- The jobs of a map that did not succeed, at most $3: those of which `member_of` has the text $2. By the index of children.
SELECT job_id
FROM warrener_jobs
WHERE parent_id = $1 AND state IN ('dead', 'cancelled', 'expired') AND replace(member_of, $2, '') <> member_of
LIMIT $3

-- name: child_ends
-- How those of these jobs that are over have ended. A result of more than $2 bytes is not read. Of the jobs of one parent
-- those that ended first: the errors and results before the last one have at most $3 bytes.
SELECT
  job.job_id, job.state, job.attempt, job.finished_at, job.error, job.cancel_reason, job.ending_reason,
  coalesce(octet_length(job.result), 0),
  CASE WHEN octet_length(job.result) <= $2 THEN job.result END
FROM (
  SELECT
    job_id,
    sum(
      coalesce(octet_length(error), 0) + CASE WHEN octet_length(result) <= $2 THEN octet_length(result) ELSE 0 END
    ) OVER (
      PARTITION BY parent_id ORDER BY finished_at, job_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS earlier
  FROM warrener_jobs
  WHERE job_id = ANY($1::uuid[]) AND finished_at IS NOT NULL
) AS found
JOIN warrener_jobs AS job ON job.job_id = found.job_id
WHERE coalesce(found.earlier, 0) <= $3

-- name: drop_signals
-- Delete the oldest signals whose jobs do not exist.
DELETE FROM warrener_signals
WHERE (job_id, signal_id) IN (
  SELECT kept.job_id, kept.signal_id
  FROM warrener_signals AS kept
  WHERE kept.received_at < $1
    AND NOT EXISTS (SELECT 1 FROM warrener_jobs AS job WHERE job.job_id = kept.job_id LIMIT 1 OFFSET 0)
  ORDER BY kept.received_at
  LIMIT $2
)
RETURNING 1

-- name: keep_waits
-- Write what these suspended jobs wait for.
INSERT INTO warrener_workflow_waits AS held (job_id, kind, since)
SELECT batch.*
FROM {batch job_id uuid, kind text, since timestamptz} AS batch
WHERE EXISTS (SELECT 1 FROM warrener_jobs AS job WHERE job.job_id = batch.job_id AND (job.state = 'suspended') IS TRUE)
ORDER BY batch.job_id
ON CONFLICT (job_id) DO UPDATE SET kind = excluded.kind, since = excluded.since
WHERE held.kind <> excluded.kind OR held.since <> excluded.since

-- name: drop_waits
-- Delete the waits of these jobs.
DELETE FROM warrener_workflow_waits WHERE job_id = ANY($1::uuid[]) RETURNING job_id

-- name: count_waits
-- How many workflows wait for this kind, up to $2; and since when the first of them that is suspended does.
SELECT
  (SELECT count(*) FROM (SELECT 1 FROM warrener_workflow_waits WHERE kind = $1 LIMIT $2) AS found),
  (
    SELECT wait.since
    FROM warrener_workflow_waits AS wait
    WHERE
      wait.kind = $1 AND EXISTS (
        SELECT 1 FROM warrener_jobs AS job WHERE job.job_id = wait.job_id AND (job.state = 'suspended') IS TRUE
      )
    ORDER BY wait.since
    LIMIT 1
  )
