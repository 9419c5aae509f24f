-- name: replaceable_schedules
-- Those of these (name, definition, put_at) that will change something when they are put.
SELECT batch.value ->> 0
FROM json_each(?1) AS batch
LEFT JOIN warrener_schedules AS held ON held.name = batch.value ->> 0
WHERE held.name IS NULL OR (held.put_at <= batch.value ->> 2 AND held.definition <> batch.value ->> 1)

-- name: put_schedule
-- Insert a schedule, or replace its definition, as put_schedules of PostgreSQL.
INSERT INTO warrener_schedules AS held ({schedule_columns})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
{put_again}

-- name: advance_schedule
-- Write the progress of a schedule.
UPDATE warrener_schedules
SET zone_version = ?2,
  next_at = ?3,
  wake_at = ?4,
  last_nominal_at = ?5,
  runs = ?6,
  waiting = ?7,
  last_job_id = ?8,
  last_fired_at = ?9
WHERE name = ?1

-- name: decided_ticks
-- Those of these (schedule, nominal_at) that exist, with their status.
SELECT tick.schedule, tick.nominal_at, tick.status
FROM json_each(?1) AS batch
JOIN warrener_ticks AS tick ON tick.schedule = batch.value ->> 0 AND tick.nominal_at = batch.value ->> 1

-- name: put_tick
-- Insert a tick. A decided tick stays as it is; a waiting one is decided once more.
INSERT INTO warrener_ticks AS held ({tick_columns})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
{decided_again}
WHERE held.status = 'waiting' AND excluded.status <> 'waiting'

-- name: unpublished_ticks
-- Ticks whose requests are not known to be published.
SELECT {tick}
FROM warrener_ticks AS tick
WHERE tick.wake_at <= ?1
ORDER BY tick.wake_at
LIMIT ?2

-- name: claim_tick
-- Claim a tick that was found unpublished.
UPDATE warrener_ticks SET wake_at = ?3 WHERE schedule = ?1 AND nominal_at = ?2

-- name: settled_ticks
-- Those of these (schedule, nominal_at) that have their job, or will have it.
SELECT tick.schedule, tick.nominal_at
FROM json_each(?1) AS batch
JOIN warrener_ticks AS tick ON tick.schedule = batch.value ->> 0 AND tick.nominal_at = batch.value ->> 1
WHERE tick.job_id IS NOT NULL OR tick.status = 'waiting'

-- name: add_tick
-- Insert a requested tick: a new one, or one that was decided without a job.
INSERT INTO warrener_ticks AS held ({tick_columns})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
{decided_again}
WHERE held.job_id IS NULL AND held.status <> 'waiting'

-- name: ticked_schedules
-- The next names that have ticks: from one to the next by the primary key, past all ticks of a schedule.
WITH RECURSIVE named (schedule, place) AS (
  SELECT min(schedule), 1 FROM warrener_ticks WHERE schedule > ?1
  UNION ALL
  SELECT (SELECT min(tick.schedule) FROM warrener_ticks AS tick WHERE tick.schedule > named.schedule), named.place + 1
  FROM named
  WHERE named.schedule IS NOT NULL AND named.place < ?2
)
SELECT schedule FROM named WHERE schedule IS NOT NULL

-- name: old_ticks
-- Old ticks of a schedule, a batch; not the newest, nor waiting or unpublished ones.
SELECT {tick}
FROM warrener_ticks AS tick
WHERE tick.schedule = ?1
  AND tick.nominal_at < min(?2, (
    SELECT coalesce(min(newest.nominal_at), '')
    FROM (
      SELECT kept.nominal_at
      FROM warrener_ticks AS kept
      WHERE kept.schedule = ?1
      ORDER BY kept.nominal_at DESC
      LIMIT ?3
    ) AS newest
  ))
  AND tick.status <> 'waiting'
  AND tick.wake_at IS NULL
ORDER BY tick.nominal_at
LIMIT ?4

-- name: delete_ticks
-- Delete these ticks; not those that wait or are unpublished by now.
DELETE FROM warrener_ticks
WHERE (schedule, nominal_at) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?1))
  AND status <> 'waiting'
  AND wake_at IS NULL
RETURNING 1

-- name: put_watch
-- Insert or replace the expectations of a schedule, not their progress.
INSERT INTO warrener_schedule_watches (name, pause_after, success_within, since, check_at)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET
  pause_after = excluded.pause_after,
  success_within = excluded.success_within,
  check_at = min(check_at, excluded.check_at)

-- name: due_watches
-- Watched schedules that are due.
SELECT {watch}, schedule.paused
FROM warrener_schedule_watches AS watch
JOIN warrener_schedules AS schedule ON schedule.name = watch.name
WHERE watch.check_at <= ?1
ORDER BY watch.check_at, watch.name
LIMIT ?2

-- name: claim_watches
-- Claim watched schedules that were found due. One writer at a time, so no two claim the same.
UPDATE warrener_schedule_watches SET check_at = ?2 WHERE name IN (SELECT value FROM json_each(?1))

-- name: newest_runs
-- The newest ticks of a schedule since a nominal time, with the ends of their jobs.
SELECT tick.nominal_at, tick.decided_at, tick.fired_at, job.state, job.finished_at
FROM warrener_ticks AS tick
LEFT JOIN warrener_jobs AS job ON job.job_id = tick.job_id
WHERE tick.schedule = ?1 AND tick.job_id IS NOT NULL AND tick.nominal_at >= coalesce(?2, '')
ORDER BY tick.nominal_at DESC
LIMIT ?3

-- name: named_schedules
-- Those of these names that are schedules.
SELECT name FROM warrener_schedules WHERE name IN (SELECT value FROM json_each(?1))

-- name: known_arrivals
-- Those of these (schedule, event) that exist.
SELECT arrival.schedule, arrival.event_id
FROM json_each(?1) AS batch
JOIN warrener_arrivals AS arrival
  ON arrival.schedule = batch.value ->> 0 AND arrival.event_id = batch.value ->> 1

-- name: add_arrival
-- Insert an arrival. Two of one batch may be the same.
INSERT INTO warrener_arrivals (schedule, event_id, occurred_at, received_at, upstream, nominal_at, event)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (schedule, event_id) DO NOTHING

-- name: wake_schedule
-- Make a schedule due then, or earlier.
UPDATE warrener_schedules SET wake_at = min(coalesce(wake_at, ?2), ?2) WHERE name = ?1

-- name: waiting_arrival
-- The arrival whose tick waits the longest for the end of a job.
SELECT {arrival}
FROM warrener_arrivals AS arrival
WHERE arrival.schedule = ?1 AND arrival.event IS NOT NULL AND arrival.nominal_at IS NOT NULL
ORDER BY arrival.nominal_at
LIMIT 1

-- name: new_arrivals
-- The arrivals to decide about.
SELECT {arrival}
FROM warrener_arrivals AS arrival
WHERE arrival.schedule = ?1 AND arrival.event IS NOT NULL AND arrival.nominal_at IS NULL
ORDER BY arrival.occurred_at, arrival.event_id
LIMIT ?2

-- name: settle_arrival
-- Store the outcome of an arrival. It stays open until its tick is fired.
UPDATE warrener_arrivals SET nominal_at = ?3, event = CASE WHEN ?3 IS NOT NULL THEN event END
WHERE schedule = ?1 AND event_id = ?2

-- name: runs_of
-- The newest ticks of each of these schedules with the states of their jobs: both by their primary keys.
SELECT
  tick.schedule, tick.nominal_at, tick.status, tick.due_at, tick.decided_at, tick.reason, tick.job_id, tick.fired_at,
  job.state, job.attempt, coalesce(job.run_started_at, job.started_at), coalesce(job.run_finished_at, job.finished_at)
FROM json_each(?1) AS named
JOIN warrener_ticks AS tick ON tick.schedule = named.value AND tick.nominal_at IN (
  SELECT recent.nominal_at
  FROM warrener_ticks AS recent
  WHERE recent.schedule = named.value AND recent.nominal_at < ?3
  ORDER BY recent.nominal_at DESC
  LIMIT ?2
)
LEFT JOIN warrener_jobs AS job ON job.job_id = tick.job_id
ORDER BY tick.schedule, tick.nominal_at DESC
