-- name: insert_job
-- Insert one new job. Run for a whole batch inside one transaction: SQLite is a library, not a server, so a statement
-- prepared once and run for each row is its fastest batch.
INSERT INTO warrener_jobs ({new_columns}, deadline_wake_at)
VALUES (
  {new_values},
  CASE WHEN {new.finished_at} IS NULL THEN {new.deadline_at} END
)

-- name: cancel_waiting
-- Note that a job was replaced while it waited.
UPDATE warrener_jobs SET cancel_reason = ?2, wake_at = ?3, updated_at = ?3, version = version + 1 WHERE job_id = ?1

-- name: put_unique_key
-- Give a unique key to a job.
INSERT INTO warrener_unique_keys AS held (unique_key, job_id, previous, replaced, since) VALUES (?1, ?2, ?3, ?4, ?5)
{put_again_unique_key}

-- name: jobs_by_id
-- The jobs of these ids.
SELECT {job}
FROM json_each(?1) AS batch
JOIN warrener_jobs AS job ON job.job_id = batch.value

-- name: jobs_by_id_or_key
-- The jobs that prevent an insert, or that a text names. A union: each half goes by its own index, and no job comes twice.
SELECT {job} FROM warrener_jobs AS job WHERE job.job_id IN (SELECT value FROM json_each(?1))
UNION
SELECT {job} FROM warrener_jobs AS job WHERE job.idempotency_key IN (SELECT value FROM json_each(?2))

-- name: saveable_jobs
-- Those of these (id, version) that are unchanged since the decision and not over; with the columns that the counts
-- need.
SELECT job.job_id, job.job_type, job.queue, job.state
FROM json_each(?1) AS batch
JOIN warrener_jobs AS job ON job.job_id = batch.value ->> 0
WHERE job.version = batch.value ->> 1 AND job.finished_at IS NULL

-- name: save_job
-- Write the state of one job. Run in the transaction that has found the job saveable.
UPDATE warrener_jobs
SET
  {saved_changes},
  deadline_wake_at = CASE WHEN {saved.finished_at} IS NULL AND {saved.ending} IS NULL THEN deadline_wake_at END
WHERE job_id = {saved.job_id}

-- name: insert_attempt
-- Insert an attempt that is over; an existing one stays as it is.
INSERT INTO warrener_attempts ({attempt_columns})
VALUES ({attempt_values})
ON CONFLICT DO NOTHING

-- name: insert_dead_letter
-- Insert a dead letter; an existing one stays as it is.
INSERT INTO warrener_dead_letters ({dead_letter_columns})
VALUES ({dead_letter_values})
ON CONFLICT DO NOTHING

-- name: count_moved
-- Move the count of one type, queue and state. One slot is enough with one writer at a time.
INSERT INTO warrener_job_counts (job_type, queue, state, slot, jobs)
VALUES (?, ?, ?, 0, ?)
ON CONFLICT (job_type, queue, state, slot) DO UPDATE SET jobs = jobs + excluded.jobs

-- name: succeedable_jobs
-- Those of these (id, attempt) that are in flight with this attempt, with the columns that notifications need, the
-- queue and the state that they leave. The plus keeps SQLite from an index that begins with the state, which would read
-- all jobs in flight.
SELECT
  {succeeded},
  CASE WHEN job.traceparent IS NOT NULL AND job.state <> 'running' THEN job.updated_at END,
  CASE WHEN job.traceparent IS NOT NULL THEN job.due_at END,
  job.queue,
  job.state
FROM json_each(?1) AS batch
JOIN warrener_jobs AS job ON job.job_id = batch.value ->> 0
WHERE
  job.attempt = batch.value ->> 1 AND +job.state IN ({in_flight}) AND job.ending IS NULL
  AND (
    batch.value ->> 2 IS NULL OR (
      job.job_type = batch.value ->> 2
      AND (job.state <> 'running' OR job.agent_id IS NULL OR job.agent_id = batch.value ->> 3)
    )
  )

-- name: succeed_job
-- End a job by the success of its current attempt. Run in the transaction that has found it in flight.
UPDATE warrener_jobs
SET
  version = version + 1,
  state = 'succeeded',
  agent_id = ?1,
  due_at = NULL,
  wake_at = NULL,
  lease_until = NULL,
  deadline_wake_at = NULL,
  finished_at = ?5,
  updated_at = ?5,
  result = ?2,
  run_started_at = ?3,
  run_finished_at = ?4
WHERE job_id = ?6

-- name: claim_due
-- Claim jobs that were found due: move their wake_at. One writer at a time, so no two claim the same.
UPDATE warrener_jobs
SET wake_at = ?2, version = version + 1
WHERE job_id IN (SELECT value FROM json_each(?1))

-- name: due_jobs
-- Jobs that are due. warrener_jobs_due holds only jobs that are not over, so finished jobs cost nothing here. The +
-- keeps SQLite from the index by state, which would read all jobs of the state and sort them.
SELECT {job}
FROM warrener_jobs AS job
WHERE +job.state IN (SELECT value FROM json_each(?1)) AND job.wake_at <= ?2
ORDER BY job.wake_at, job.job_id
LIMIT ?3

-- name: overdue_jobs
-- Jobs whose deadline has passed; deadline_wake_at is null once a job is over or begins to end.
SELECT {job}
FROM warrener_jobs AS job
WHERE job.deadline_wake_at <= ?1
ORDER BY job.deadline_wake_at, job.job_id
LIMIT ?2

-- name: claim_overdue
-- Claim jobs whose deadline was found to have passed.
UPDATE warrener_jobs
SET deadline_wake_at = ?2, version = version + 1
WHERE job_id IN (SELECT value FROM json_each(?1))

-- name: claim_lost
-- Claim jobs that were found lost: move their lease_until. One writer at a time, so no two claim the same.
UPDATE warrener_jobs
SET lease_until = ?2, version = version + 1
WHERE job_id IN (SELECT value FROM json_each(?1))

-- name: losable_jobs
-- Those of these jobs that run and whose lease is over. The + keeps SQLite to the primary key.
SELECT {job}
FROM warrener_jobs AS job
WHERE job.job_id IN (SELECT value FROM json_each(?1)) AND +job.state = 'running' AND job.lease_until <= ?2

-- name: watchers_of
-- The reply addresses of those of these jobs that are not over.
SELECT job.job_id, job.watchers
FROM json_each(?1) AS batch
JOIN warrener_jobs AS job ON job.job_id = batch.value
WHERE job.finished_at IS NULL

-- name: set_watchers
-- Write the reply addresses of one job that was found not to be over.
UPDATE warrener_jobs
SET watchers = ?2, version = version + 1
WHERE job_id = ?1

-- name: mark_unpublished
-- Record that the broker has not taken a dispatch.
UPDATE warrener_jobs
SET dispatched_at = NULL, updated_at = ?3, version = version + 1
WHERE job_id = ?1 AND attempt = ?2 AND state IN ('queued', 'retrying')

-- name: held_jobs
-- Jobs that are due and were put off, the first due first.
SELECT job_id
FROM warrener_jobs
WHERE job_type IN (SELECT value FROM json_each(?1)) AND +state IN ('waiting', 'retrying')
  AND due_at <= ?2 AND wake_at > ?3 AND wake_at <= ?6 AND queue NOT IN (SELECT value FROM json_each(?5))
ORDER BY due_at, job_id
LIMIT ?4
