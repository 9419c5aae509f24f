-- name: put_schedules
-- Insert schedules, or replace their definitions. An older definition does not replace a newer one, and an equal one
-- changes nothing: a file of schedules may be applied repeatedly. A schedule with waiting ticks is due now: the new
-- rule may not be due for a year, or never again.
--
-- The expectations of those that changed are inserted, replaced or deleted with them; their progress stays.
WITH put AS (
  INSERT INTO warrener_schedules AS held ({schedule_columns})
  SELECT *
  FROM unnest(
    $1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::boolean[], $6::timestamptz[], $7::timestamptz[],
    $8::timestamptz[], $9::integer[], $10::integer[], $11::uuid[], $12::timestamptz[], $13::text[]
  ) AS batch ({schedule_columns})
  ORDER BY batch.name
  {put_again}
  RETURNING held.name
),
over AS (
  DELETE FROM warrener_schedule_watches
  WHERE name IN (SELECT put.name FROM put) AND NOT name = ANY($14::text[])
),
expected AS (
  INSERT INTO warrener_schedule_watches AS held (name, pause_after, success_within, since, check_at)
  SELECT batch.*
  FROM unnest($14::text[], $15::integer[], $16::double precision[], $17::timestamptz[], $18::timestamptz[])
    AS batch (name, pause_after, success_within, since, check_at)
  WHERE batch.name IN (SELECT put.name FROM put)
  ORDER BY batch.name
  ON CONFLICT (name) DO UPDATE SET
    pause_after = excluded.pause_after,
    success_within = excluded.success_within,
    check_at = least(held.check_at, excluded.check_at)
)
SELECT name FROM put

-- name: advance_schedules
-- The progress of schedules, their ticks and the outcomes of arrivals: one statement, one commit. A schedule that has
-- changed since due_schedules returned it stays as it is, and gets none of its ticks: it is still due, and is decided
-- again. `xmin` is the transaction that wrote the row; locks leave it as it is. The rows are in the order of their
-- names, which prevents deadlocks between two schedulers. A decided tick stays as it is; a waiting one is decided
-- once more. An array with one value holds it for all rows, if the column cannot be NULL (see insert_jobs).
WITH advanced AS (
  UPDATE warrener_schedules AS schedule
  SET zone_version = coalesce(batch.zone_version, ($2::text[])[1]),
    next_at = batch.next_at,
    wake_at = batch.wake_at,
    last_nominal_at = batch.last_nominal_at,
    runs = coalesce(batch.runs, ($6::integer[])[1]),
    waiting = coalesce(batch.waiting, ($7::integer[])[1]),
    last_job_id = batch.last_job_id,
    last_fired_at = batch.last_fired_at
  FROM unnest(
    $1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::integer[],
    $7::integer[], $8::uuid[], $9::timestamptz[], $10::xid[]
  ) AS batch (name, zone_version, next_at, wake_at, last_nominal_at, runs, waiting, last_job_id, last_fired_at, version)
  WHERE schedule.name = batch.name AND schedule.xmin = batch.version
  RETURNING schedule.name
),
settled AS (
  -- One whose tick waits stays open until that is fired.
  UPDATE warrener_arrivals AS arrival
  SET nominal_at = batch.nominal_at, event = CASE WHEN batch.nominal_at IS NOT NULL THEN arrival.event END
  FROM unnest($21::text[], $22::uuid[], $23::timestamptz[]) AS batch (schedule, event_id, nominal_at)
  WHERE arrival.schedule = batch.schedule AND arrival.event_id = batch.event_id
    AND (batch.schedule IN (SELECT advanced.name FROM advanced)) IS TRUE
)
INSERT INTO warrener_ticks AS held ({tick_columns})
SELECT
  schedule, nominal_at, coalesce(status, ($13::text[])[1]), coalesce(due_at, ($14::timestamptz[])[1]),
  coalesce(decided_at, ($15::timestamptz[])[1]), coalesce(reason, ($16::text[])[1]), job_id, fired_at, wake_at, request
FROM unnest(
  $11::text[], $12::timestamptz[], $13::text[], $14::timestamptz[], $15::timestamptz[], $16::text[], $17::uuid[],
  $18::timestamptz[], $19::timestamptz[], $20::text[]
) AS batch ({tick_columns})
WHERE (schedule IN (SELECT advanced.name FROM advanced)) IS TRUE
{decided_again}
WHERE held.status = 'waiting' AND excluded.status <> 'waiting'
RETURNING held.schedule, held.nominal_at

-- name: claim_ticks
-- Claim ticks whose requests are not known to be published.
WITH due AS (
  SELECT schedule, nominal_at
  FROM warrener_ticks
  WHERE wake_at <= $1::timestamptz
  ORDER BY wake_at
  LIMIT $3::bigint
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE warrener_ticks AS tick
SET wake_at = $2::timestamptz
FROM due
WHERE tick.schedule = due.schedule AND tick.nominal_at = due.nominal_at
RETURNING {tick}

-- name: add_ticks
-- Insert requested ticks: new ones, and those that were decided without a job. An array with one value holds it for
-- all rows, if the column cannot be NULL (see insert_jobs).
INSERT INTO warrener_ticks AS held ({tick_columns})
SELECT
  schedule, nominal_at, coalesce(status, ($3::text[])[1]), coalesce(due_at, ($4::timestamptz[])[1]),
  coalesce(decided_at, ($5::timestamptz[])[1]), coalesce(reason, ($6::text[])[1]), job_id, fired_at, wake_at, request
FROM unnest(
  $1::text[], $2::timestamptz[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::text[], $7::uuid[],
  $8::timestamptz[], $9::timestamptz[], $10::text[]
) AS batch ({tick_columns})
{decided_again}
WHERE held.job_id IS NULL AND held.status <> 'waiting'
RETURNING held.schedule, held.nominal_at

-- name: ticked_schedules
-- The next names that have ticks: from one to the next by the primary key, past all ticks of a schedule.
WITH RECURSIVE named AS (
  (SELECT schedule, 1 AS place FROM warrener_ticks WHERE schedule > $1 ORDER BY schedule LIMIT 1)
  UNION ALL
  SELECT (
    SELECT tick.schedule FROM warrener_ticks AS tick WHERE tick.schedule > named.schedule ORDER BY tick.schedule LIMIT 1
  ), named.place + 1
  FROM named
  WHERE named.schedule IS NOT NULL AND named.place < $2::bigint
)
SELECT schedule FROM named WHERE schedule IS NOT NULL

-- name: old_ticks
-- Old ticks of these schedules, a batch of each; not the newest, nor waiting or unpublished ones.
SELECT {tick}
FROM unnest($1::text[]) AS batch (schedule)
CROSS JOIN LATERAL (
  SELECT ticks.*
  FROM warrener_ticks AS ticks
  WHERE ticks.schedule = batch.schedule
    AND ticks.nominal_at < least($2::timestamptz, (
      SELECT coalesce(min(newest.nominal_at), '-infinity')
      FROM (
        SELECT kept.nominal_at
        FROM warrener_ticks AS kept
        WHERE kept.schedule = batch.schedule
        ORDER BY kept.nominal_at DESC
        LIMIT $3::bigint
      ) AS newest
    ))
    AND ticks.status <> 'waiting'
    AND ticks.wake_at IS NULL
  ORDER BY ticks.nominal_at
  LIMIT $4::bigint
) AS tick

-- name: delete_ticks
-- Delete these ticks; not those that wait or are unpublished by now, nor those that another caller holds.
WITH old AS (
  SELECT tick.schedule, tick.nominal_at
  FROM unnest($1::text[], $2::timestamptz[]) AS batch (schedule, nominal_at)
  CROSS JOIN LATERAL (
    SELECT held.schedule, held.nominal_at
    FROM warrener_ticks AS held
    WHERE held.schedule = batch.schedule AND held.nominal_at = batch.nominal_at
      AND held.status <> 'waiting' AND held.wake_at IS NULL
    FOR UPDATE SKIP LOCKED
  ) AS tick
)
DELETE FROM warrener_ticks AS gone
USING old
WHERE gone.schedule = old.schedule AND gone.nominal_at = old.nominal_at
RETURNING 1

-- name: claim_watches
-- Claim watched schedules, with their newest ticks since the last known success.
WITH due AS (
  SELECT name
  FROM warrener_schedule_watches
  WHERE check_at <= $1::timestamptz
  ORDER BY check_at, name
  LIMIT $3::bigint
  FOR NO KEY UPDATE SKIP LOCKED
), claimed AS (
  UPDATE warrener_schedule_watches AS watch
  SET check_at = $2::timestamptz
  FROM due
  WHERE watch.name = due.name
  RETURNING {watch}
)
SELECT {claimed}, schedule.paused, run.*
FROM claimed
JOIN warrener_schedules AS schedule ON schedule.name = claimed.name
LEFT JOIN LATERAL (
  SELECT tick.nominal_at, tick.decided_at, tick.fired_at, job.state, job.finished_at
  FROM warrener_ticks AS tick
  LEFT JOIN warrener_jobs AS job ON job.job_id = tick.job_id
  WHERE tick.schedule = claimed.name
    AND tick.job_id IS NOT NULL
    AND tick.nominal_at >= coalesce(claimed.last_success_tick, '-infinity')
  ORDER BY tick.nominal_at DESC
  LIMIT $4::bigint
) AS run ON true
ORDER BY claimed.name, run.nominal_at DESC

-- name: add_arrivals
-- Insert arrivals, once for each schedule that waits for them, and wake the schedules.
--
-- The schedules are locked first, in one order: a decision about one of them ends before, or sees the arrivals added
-- here.
WITH held AS (
  SELECT name FROM warrener_schedules WHERE name = ANY($1::text[]) ORDER BY name FOR NO KEY UPDATE
),
added AS (
  INSERT INTO warrener_arrivals (schedule, event_id, occurred_at, received_at, upstream, nominal_at, event)
  SELECT *
  FROM unnest(
    $1::text[], $2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::timestamptz[], $7::text[]
  ) AS batch (schedule, event_id, occurred_at, received_at, upstream, nominal_at, event)
  WHERE batch.schedule IN (SELECT name FROM held)
  ORDER BY batch.schedule, batch.event_id
  ON CONFLICT (schedule, event_id) DO NOTHING
  RETURNING schedule, received_at
)
UPDATE warrener_schedules AS schedule
SET wake_at = least(schedule.wake_at, woken.received_at)
FROM (SELECT added.schedule, min(added.received_at) AS received_at FROM added GROUP BY added.schedule) AS woken
WHERE schedule.name = woken.schedule

-- name: open_arrivals
-- The arrivals to decide about for each of these schedules, behind the one whose tick waits the longest.
SELECT {arrival}
FROM unnest($1::text[]) AS due (name)
CROSS JOIN LATERAL (
  (
    SELECT * FROM warrener_arrivals
    WHERE schedule = due.name AND event IS NOT NULL AND nominal_at IS NOT NULL
    ORDER BY nominal_at
    LIMIT 1
  )
  UNION ALL
  (
    SELECT * FROM warrener_arrivals
    WHERE schedule = due.name AND event IS NOT NULL AND nominal_at IS NULL
    ORDER BY occurred_at, event_id
    LIMIT $2::bigint
  )
) AS arrival

-- name: runs_of
-- The newest ticks of each of these schedules with the states of their jobs: both by their primary keys.
SELECT
  tick.schedule, tick.nominal_at, tick.status, tick.due_at, tick.decided_at, tick.reason, tick.job_id, tick.fired_at,
  job.state, job.attempt, coalesce(job.run_started_at, job.started_at), coalesce(job.run_finished_at, job.finished_at)
FROM unnest($1::text[]) AS named (schedule)
CROSS JOIN LATERAL (
  SELECT recent.*
  FROM warrener_ticks AS recent
  WHERE recent.schedule = named.schedule AND recent.nominal_at < $3
  ORDER BY recent.nominal_at DESC
  LIMIT $2
) AS tick
LEFT JOIN warrener_jobs AS job ON job.job_id = tick.job_id
ORDER BY tick.schedule, tick.nominal_at DESC
