-- How far schedules have come, the ticks on the way and what has become of arrivals: one statement, one commit.
-- A schedule that has changed since due_schedules gave it to the caller stays as it is, and gets none of its ticks:
-- it is still due, and is decided again. `xmin` is the transaction that wrote the row; locks leave it as it is.
-- The rows come in the order of their names, so that two schedulers wait for each other, but never in a circle.
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
    $7::integer[], $8::uuid[], $9::timestamptz[], $10::xid[]
  ) AS told (name, zone_version, next_at, wake_at, last_at, runs, waiting, last_job_id, last_fired_at, version)
  WHERE schedule.name = told.name AND schedule.xmin = told.version
  RETURNING schedule.name
),
settled AS (
  -- One whose tick waits stays open until that is fired.
  UPDATE warrener_arrivals AS arrival
  SET nominal_at = told.nominal_at, event = CASE WHEN told.nominal_at IS NOT NULL THEN arrival.event END
  FROM unnest($21::text[], $22::uuid[], $23::timestamptz[]) AS told (schedule, event_id, nominal_at)
  WHERE arrival.schedule = told.schedule AND arrival.event_id = told.event_id
    AND (told.schedule IN (SELECT advanced.name FROM advanced)) IS TRUE
)
INSERT INTO warrener_ticks AS held (
  schedule, nominal_at, fate, due_at, decided_at, reason, job_id, fired_at, wake_at, request
)
SELECT
  schedule, nominal_at, coalesce(fate, ($13::text[])[1]), coalesce(due_at, ($14::timestamptz[])[1]),
  coalesce(decided_at, ($15::timestamptz[])[1]), coalesce(reason, ($16::text[])[1]), job_id, fired_at, wake_at, request
FROM unnest(
  $11::text[], $12::timestamptz[], $13::text[], $14::timestamptz[], $15::timestamptz[], $16::text[], $17::uuid[],
  $18::timestamptz[], $19::timestamptz[], $20::text[]
) AS told (schedule, nominal_at, fate, due_at, decided_at, reason, job_id, fired_at, wake_at, request)
WHERE (schedule IN (SELECT advanced.name FROM advanced)) IS TRUE
ON CONFLICT (schedule, nominal_at) DO UPDATE SET
  fate = excluded.fate,
  decided_at = excluded.decided_at,
  reason = excluded.reason,
  job_id = excluded.job_id,
  wake_at = excluded.wake_at,
  request = excluded.request
WHERE held.fate = 'waiting' AND excluded.fate <> 'waiting'
RETURNING held.schedule, held.nominal_at
