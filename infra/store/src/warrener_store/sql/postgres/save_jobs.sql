-- Write what has become of jobs, with the attempts and the dead letters that belong to it, and move the counts.
--
-- A job is written only where its version is still the one that was judged and it is not over.
--
-- The rows are looked up by key one after another (CROSS JOIN LATERAL … OFFSET 0 is never rearranged) and written where
-- they stand (ctid), in the order in which they are told: that of their ids, so that two supervisors with overlapping
-- batches wait for each other, but never in a circle. One lookup a row, no lock before the write, and no plan that
-- reads through the jobs, whatever the planner knew when it was made.
WITH changed AS (
  -- The version is compared again: a row that changed while it was waited for is left alone.
  UPDATE warrener_jobs AS job
  SET
    version = told.version,
    state = told.state,
    attempt = told.attempt,
    failures = told.failures,
    losses = told.losses,
    owner = told.owner,
    watchers = told.watchers,
    cancel_reason = told.cancel_reason,
    due_at = told.due_at,
    wake_at = told.wake_at,
    dispatched_at = told.dispatched_at,
    started_at = told.started_at,
    lease_until = told.lease_until,
    finished_at = told.finished_at,
    progress = told.progress,
    progress_note = told.progress_note,
    result = told.result,
    error = told.error,
    updated_at = told.updated_at,
    ran_from = told.ran_from,
    ran_until = told.ran_until,
    deadline_wake_at = CASE WHEN told.finished_at IS NULL THEN job.deadline_wake_at END
  FROM unnest(
    $1::uuid[], $2::integer[], $3::integer[], $4::text[], $5::integer[], $6::integer[], $7::integer[],
    $8::text[], $9::text[], $10::text[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[],
    $14::timestamptz[], $15::timestamptz[], $16::timestamptz[], $17::double precision[], $18::text[],
    $19::text[], $20::text[], $21::timestamptz[], $22::timestamptz[], $23::timestamptz[]
  ) AS told (
    job_id, held, version, state, attempt, failures, losses, owner, watchers, cancel_reason, due_at, wake_at,
    dispatched_at, started_at, lease_until, finished_at, progress, progress_note, result, error, updated_at,
    ran_from, ran_until
  )
  CROSS JOIN LATERAL (
    SELECT ctid AS place, state AS left_state FROM warrener_jobs WHERE job_id = told.job_id OFFSET 0
  ) AS found
  WHERE job.ctid = found.place AND job.version = told.held AND job.finished_at IS NULL
  RETURNING job.job_id, job.job_type, job.state, found.left_state
),
ended AS (
  -- IS TRUE: a hashed list of ids and no join, which would compare each with each where the planner expects few.
  INSERT INTO warrener_attempts (
    job_id, attempt, ended_as, agent_id, dispatched_at, started_at, finished_at, error, verdict
  )
  SELECT past.*
  FROM unnest(
    $24::uuid[], $25::integer[], $26::text[], $27::text[], $28::timestamptz[], $29::timestamptz[],
    $30::timestamptz[], $31::text[], $32::text[]
  ) AS past (
    job_id, attempt, ended_as, agent_id, dispatched_at, started_at, finished_at, error, verdict
  )
  WHERE (past.job_id IN (SELECT changed.job_id FROM changed)) IS TRUE
  ON CONFLICT DO NOTHING
),
buried AS (
  INSERT INTO warrener_dead_letters (
    job_id, job_type, attempts, reason, error, died_at, fingerprint
  )
  SELECT letter.*
  FROM unnest(
    $33::uuid[], $34::text[], $35::integer[], $36::text[], $37::text[], $38::timestamptz[],
    $39::text[]
  ) AS letter (
    job_id, job_type, attempts, reason, error, died_at, fingerprint
  )
  WHERE (letter.job_id IN (SELECT changed.job_id FROM changed)) IS TRUE
  ON CONFLICT DO NOTHING
),
counted AS (
  -- Groups first, so all jobs are locked before the first count is; and in one order.
  INSERT INTO warrener_job_counts AS held (job_type, state, slot, jobs)
  SELECT moved.job_type, moved.state, pg_backend_pid() % 16, sum(moved.jobs)
  FROM (
    SELECT job_type, left_state AS state, -1 AS jobs FROM changed
    UNION ALL
    SELECT job_type, state, 1 AS jobs FROM changed
  ) AS moved
  GROUP BY moved.job_type, moved.state
  HAVING sum(moved.jobs) <> 0
  ORDER BY moved.job_type, moved.state
  ON CONFLICT (job_type, state, slot) DO UPDATE SET jobs = held.jobs + excluded.jobs
)
SELECT job_id FROM changed
