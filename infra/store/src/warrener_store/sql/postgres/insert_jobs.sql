-- Insert the jobs that are new by id and by idempotency key, count them, and say which they are.
--
-- One array for each column: the fastest way to hand over a batch, and the statement is the same for any size, so
-- it is prepared once. The rows are inserted in the order given, which is that of the arrays: of two that mean the same
-- job, the first.
WITH fresh AS (
  INSERT INTO warrener_jobs (
    job_id, job_type, queue, arguments, guarantee, policy, source, idempotency_key, parent_id, traceparent,
    tracestate, requested_at, accepted_at, deadline_at, fingerprint, version, state, attempt, failures,
    losses, owner, watchers, cancel_reason, due_at, wake_at, dispatched_at, started_at, lease_until,
    finished_at, progress, progress_note, result, error, updated_at, deadline_wake_at
  )
  SELECT
    job_id, job_type, queue, arguments, guarantee, policy, source, idempotency_key, parent_id, traceparent,
    tracestate, requested_at, accepted_at, deadline_at, fingerprint, version, state, attempt, failures,
    losses, owner, watchers, cancel_reason, due_at, wake_at, dispatched_at, started_at, lease_until,
    finished_at, progress, progress_note, result, error, updated_at,
    CASE WHEN finished_at IS NULL THEN deadline_at END
  FROM unnest(
    $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
    $9::uuid[], $10::text[], $11::text[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[],
    $15::text[], $16::integer[], $17::text[], $18::integer[], $19::integer[], $20::integer[], $21::text[],
    $22::text[], $23::text[], $24::timestamptz[], $25::timestamptz[], $26::timestamptz[], $27::timestamptz[],
    $28::timestamptz[], $29::timestamptz[], $30::double precision[], $31::text[], $32::text[], $33::text[],
    $34::timestamptz[]
  ) AS asked (
    job_id, job_type, queue, arguments, guarantee, policy, source, idempotency_key, parent_id, traceparent,
    tracestate, requested_at, accepted_at, deadline_at, fingerprint, version, state, attempt, failures,
    losses, owner, watchers, cancel_reason, due_at, wake_at, dispatched_at, started_at, lease_until,
    finished_at, progress, progress_note, result, error, updated_at
  )
  ON CONFLICT DO NOTHING
  RETURNING job_id, job_type, state
),
counted AS (
  -- After all rows are locked and in one order, so that two batches cannot wait for each other.
  INSERT INTO warrener_job_counts AS held (job_type, state, slot, jobs)
  SELECT job_type, state, pg_backend_pid() % 16, count(*)
  FROM fresh
  GROUP BY job_type, state
  ORDER BY job_type, state
  ON CONFLICT (job_type, state, slot) DO UPDATE SET jobs = held.jobs + excluded.jobs
)
SELECT job_id FROM fresh
