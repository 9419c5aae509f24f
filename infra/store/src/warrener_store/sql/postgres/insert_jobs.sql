-- Insert the jobs that are new by id and by idempotency key, count them, and say how many they are, and which
-- where these are not all.
--
-- One array for each column: the fastest way to hand over a batch, and the statement is the same for any size, so
-- it is prepared once. Where all rows hold one value, the array may hold it once: `unnest` fills it up with NULL,
-- and what cannot be NULL is then the first; an empty array is all NULL. The rows are inserted in the order given:
-- of two that mean the same job, the first.
WITH fresh AS (
  INSERT INTO warrener_jobs (
    job_id, job_type, queue, arguments, guarantee, policy, source, idempotency_key, parent_id, traceparent,
    tracestate, requested_at, accepted_at, deadline_at, fingerprint, version, state, attempt, failures,
    losses, owner, watchers, cancel_reason, due_at, wake_at, dispatched_at, started_at, lease_until,
    finished_at, progress, progress_note, result, error, updated_at, deadline_wake_at
  )
  SELECT
    job_id, coalesce(job_type, ($2::text[])[1]), coalesce(queue, ($3::text[])[1]), arguments,
    coalesce(guarantee, ($5::text[])[1]), coalesce(policy, ($6::text[])[1]), coalesce(source, ($7::text[])[1]),
    idempotency_key, parent_id, traceparent, tracestate, requested_at,
    coalesce(accepted_at, ($13::timestamptz[])[1]), deadline_at, fingerprint,
    coalesce(version, ($16::integer[])[1]), coalesce(state, ($17::text[])[1]),
    coalesce(attempt, ($18::integer[])[1]), coalesce(failures, ($19::integer[])[1]),
    coalesce(losses, ($20::integer[])[1]), owner, coalesce(watchers, ($22::text[])[1]), cancel_reason, due_at,
    CASE cardinality($25::timestamptz[]) WHEN 1 THEN ($25::timestamptz[])[1] ELSE wake_at END,
    CASE cardinality($26::timestamptz[]) WHEN 1 THEN ($26::timestamptz[])[1] ELSE dispatched_at END,
    started_at, lease_until, finished_at, progress, progress_note, result, error,
    coalesce(updated_at, ($34::timestamptz[])[1]),
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
SELECT count(*), CASE WHEN count(*) < cardinality($1::uuid[]) THEN array_agg(job_id) END FROM fresh
