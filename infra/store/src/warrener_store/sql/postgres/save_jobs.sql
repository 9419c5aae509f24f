-- Write what has become of jobs, with the attempts and the dead letters that belong to it, and move the counts.
--
-- A job is written only where its version is still the one that was judged and it is not over.
--
-- Where all rows hold one value, the array holds it once; where all hold NULL, it is empty: `unnest` fills both up with
-- NULL. Only the ids stand there one for each row.
--
-- The rows are looked up by key one after another (CROSS JOIN LATERAL … OFFSET 0 is never rearranged) and written where
-- they stand (ctid), in the order in which they are told: that of their ids, so that two supervisors with overlapping
-- batches wait for each other, but never in a circle. One lookup a row, no lock before the write, and no plan that
-- reads through the jobs, whatever the planner knew when it was made.
WITH changed AS (
  -- The version is compared again: a row that changed while it was waited for is left alone.
  UPDATE warrener_jobs AS job
  SET
    version = coalesce(told.version, ($3::integer[])[1]),
    state = coalesce(told.state, ($4::text[])[1]),
    attempt = coalesce(told.attempt, ($5::integer[])[1]),
    failures = coalesce(told.failures, ($6::integer[])[1]),
    losses = coalesce(told.losses, ($7::integer[])[1]),
    owner = CASE cardinality($8::text[]) WHEN 1 THEN ($8::text[])[1] ELSE told.owner END,
    watchers = coalesce(told.watchers, ($9::text[])[1]),
    cancel_reason = CASE cardinality($10::text[]) WHEN 1 THEN ($10::text[])[1] ELSE told.cancel_reason END,
    due_at = CASE cardinality($11::timestamptz[]) WHEN 1 THEN ($11::timestamptz[])[1] ELSE told.due_at END,
    wake_at = CASE cardinality($12::timestamptz[]) WHEN 1 THEN ($12::timestamptz[])[1] ELSE told.wake_at END,
    dispatched_at = CASE cardinality($13::timestamptz[]) WHEN 1 THEN ($13::timestamptz[])[1] ELSE told.dispatched_at END,
    started_at = CASE cardinality($14::timestamptz[]) WHEN 1 THEN ($14::timestamptz[])[1] ELSE told.started_at END,
    lease_until = CASE cardinality($15::timestamptz[]) WHEN 1 THEN ($15::timestamptz[])[1] ELSE told.lease_until END,
    finished_at = CASE cardinality($16::timestamptz[]) WHEN 1 THEN ($16::timestamptz[])[1] ELSE told.finished_at END,
    progress = CASE cardinality($17::double precision[]) WHEN 1 THEN ($17::double precision[])[1] ELSE told.progress END,
    progress_note = CASE cardinality($18::text[]) WHEN 1 THEN ($18::text[])[1] ELSE told.progress_note END,
    result = CASE cardinality($19::text[]) WHEN 1 THEN ($19::text[])[1] ELSE told.result END,
    error = CASE cardinality($20::text[]) WHEN 1 THEN ($20::text[])[1] ELSE told.error END,
    updated_at = coalesce(told.updated_at, ($21::timestamptz[])[1]),
    ran_from = CASE cardinality($22::timestamptz[]) WHEN 1 THEN ($22::timestamptz[])[1] ELSE told.ran_from END,
    ran_until = CASE cardinality($23::timestamptz[]) WHEN 1 THEN ($23::timestamptz[])[1] ELSE told.ran_until END,
    deadline_wake_at = CASE
      WHEN cardinality($16::timestamptz[]) <> 1 AND told.finished_at IS NULL THEN job.deadline_wake_at
    END
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
  WHERE job.ctid = found.place AND job.version = coalesce(told.held, ($2::integer[])[1]) AND job.finished_at IS NULL
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
