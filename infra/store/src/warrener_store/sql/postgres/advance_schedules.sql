-- How far schedules have come, and the ticks on the way: one round trip. The caller holds the schedules.
-- Of the ticks, what was decided stays; one that was waiting is decided once more.
-- An array that holds one value holds that of all rows, where a column cannot be NULL (see insert_jobs).
WITH advanced AS (
  UPDATE warrener_schedules AS schedule
  SET zone_version = coalesce(told.zone_version, ($2::text[])[1]),
    next_at = told.next_at,
    wake_at = told.wake_at,
    last_at = told.last_at,
    runs = coalesce(told.runs, ($6::integer[])[1]),
    waiting = coalesce(told.waiting, ($7::integer[])[1]),
    last_job_id = told.last_job_id,
    last_fired_at = told.last_fired_at
  FROM unnest(
    $1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::integer[],
    $7::integer[], $8::uuid[], $9::timestamptz[]
  ) AS told (name, zone_version, next_at, wake_at, last_at, runs, waiting, last_job_id, last_fired_at)
  WHERE schedule.name = told.name
)
INSERT INTO warrener_ticks AS held (
  schedule, nominal_at, fate, due_at, decided_at, reason, job_id, fired_at, wake_at, request
)
SELECT
  schedule, nominal_at, coalesce(fate, ($12::text[])[1]), coalesce(due_at, ($13::timestamptz[])[1]),
  coalesce(decided_at, ($14::timestamptz[])[1]), coalesce(reason, ($15::text[])[1]), job_id, fired_at, wake_at, request
FROM unnest(
  $10::text[], $11::timestamptz[], $12::text[], $13::timestamptz[], $14::timestamptz[], $15::text[], $16::uuid[],
  $17::timestamptz[], $18::timestamptz[], $19::text[]
) AS told (schedule, nominal_at, fate, due_at, decided_at, reason, job_id, fired_at, wake_at, request)
ON CONFLICT (schedule, nominal_at) DO UPDATE SET
  fate = excluded.fate,
  decided_at = excluded.decided_at,
  reason = excluded.reason,
  job_id = excluded.job_id,
  wake_at = excluded.wake_at,
  request = excluded.request
WHERE held.fate = 'waiting' AND excluded.fate <> 'waiting'
RETURNING held.schedule, held.nominal_at
