-- Ticks that are asked for after all: new ones, and those that were passed over and have no job.
-- An array that holds one value holds that of all rows, where a column cannot be NULL (see insert_jobs).
INSERT INTO warrener_ticks AS held (
  schedule, nominal_at, fate, due_at, decided_at, reason, job_id, fired_at, wake_at, request
)
SELECT
  schedule, nominal_at, coalesce(fate, ($3::text[])[1]), coalesce(due_at, ($4::timestamptz[])[1]),
  coalesce(decided_at, ($5::timestamptz[])[1]), coalesce(reason, ($6::text[])[1]), job_id, fired_at, wake_at, request
FROM unnest(
  $1::text[], $2::timestamptz[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::text[], $7::uuid[],
  $8::timestamptz[], $9::timestamptz[], $10::text[]
) AS told (schedule, nominal_at, fate, due_at, decided_at, reason, job_id, fired_at, wake_at, request)
ON CONFLICT (schedule, nominal_at) DO UPDATE SET
  fate = excluded.fate,
  decided_at = excluded.decided_at,
  reason = excluded.reason,
  job_id = excluded.job_id,
  wake_at = excluded.wake_at,
  request = excluded.request
WHERE held.job_id IS NULL AND held.fate <> 'waiting'
RETURNING held.schedule, held.nominal_at
