-- name: next_schedule_wake
-- When a scheduler must look next; each half reads the first entry of its index.
SELECT min(wake_at) FROM (
  SELECT min(wake_at) AS wake_at FROM warrener_schedules WHERE wake_at IS NOT NULL
  UNION ALL
  SELECT min(wake_at) FROM warrener_ticks WHERE wake_at IS NOT NULL
) AS wakes

-- name: late_schedules
-- Schedules that are late. A scheduler that could not decide about one has put it off, and its tick is still due: so
-- the index is read beyond that time.
SELECT {schedule}
FROM warrener_schedules AS schedule
WHERE schedule.wake_at <= $2 AND (schedule.wake_at < $1 OR schedule.next_at < $1)
ORDER BY schedule.wake_at, schedule.name
LIMIT $3

-- name: ticks_of
-- The ticks of one schedule from one nominal time to another, both included, the newest first.
SELECT {tick}
FROM warrener_ticks AS tick
WHERE tick.schedule = $1 AND tick.nominal_at >= $3 AND tick.nominal_at <= $4
ORDER BY tick.nominal_at DESC
LIMIT $2

-- name: last_success
-- The newest nominal time whose job has succeeded, of the last ones.
SELECT max(recent.nominal_at)
FROM (
  SELECT tick.nominal_at, tick.job_id
  FROM warrener_ticks AS tick
  WHERE tick.schedule = $1 AND tick.job_id IS NOT NULL
  ORDER BY tick.nominal_at DESC
  LIMIT {newest}
) AS recent
JOIN warrener_jobs AS job ON job.job_id = recent.job_id
WHERE job.state = 'succeeded'

-- name: bound
-- The addresses that may be bound at the broker.
SELECT exchange, key FROM warrener_trigger_bindings

-- name: arrivals_of
-- The open arrivals of a schedule.
SELECT {arrival}
FROM warrener_arrivals AS arrival
WHERE arrival.schedule = $1 AND arrival.event IS NOT NULL
ORDER BY arrival.occurred_at, arrival.event_id

-- name: declarations
-- The adopted declarations of these schedules, and those for these job types.
SELECT known.name, known.definition_hash, known.job_type, known.declared_by, known.declared_at
FROM warrener_schedule_declarations AS known
WHERE known.name = ANY($1::text[]) OR known.job_type = ANY($2::text[])
ORDER BY known.name, known.declared_at, known.definition_hash

-- name: keep_declaration
-- Store adopted declarations; the first one counts.
INSERT INTO warrener_schedule_declarations (name, definition_hash, job_type, declared_by, declared_at)
SELECT *
FROM {batch name text, definition_hash text, job_type text, declared_by text, declared_at timestamptz} AS batch
WHERE true
ON CONFLICT (name, definition_hash) DO NOTHING

-- name: drop_arrivals
-- Delete the open arrivals of these schedules. The others stay, so that a repeat is still known as one.
DELETE FROM warrener_arrivals WHERE schedule = ANY($1::text[]) AND event IS NOT NULL

-- name: forget_arrivals
-- Delete arrivals that are not repeated any longer, and those of schedules that no longer wait for events.
DELETE FROM warrener_arrivals
WHERE received_at < $1::timestamptz AND (event IS NULL OR schedule NOT IN (
  SELECT name
  FROM warrener_schedules
  WHERE strpos(definition, '"rule":{"kind":"event"') > 0 OR strpos(definition, '"rule":{"kind":"after"') > 0
))

-- name: waiting_schedules
-- Schedules that wait for events, by their index. Callers drop others whose definition contains these words.
SELECT {schedule}
FROM warrener_schedules AS schedule
WHERE (strpos(schedule.definition, '"rule":{"kind":"event"') > 0
  OR strpos(schedule.definition, '"rule":{"kind":"after"') > 0)
ORDER BY schedule.name

-- name: due_schedules
-- Schedules that are due, each with the version of its row, by which advance_schedules sees whether it has changed
-- since.
--
-- The state of the last job is read if the overlap policy needs it: last_job_id is set only then. So is the last
-- success if the arguments name it.
SELECT {schedule}, job.state, CASE WHEN schedule.waiting > 0 THEN (
  SELECT min(tick.nominal_at)
  FROM warrener_ticks AS tick
  WHERE tick.schedule = schedule.name AND tick.status = 'waiting'
) END, CASE WHEN schedule.definition LIKE '%tick.previous_success%' THEN (
  SELECT max(recent.nominal_at)
  FROM (
    SELECT tick.nominal_at, tick.job_id
    FROM warrener_ticks AS tick
    WHERE tick.schedule = schedule.name AND tick.job_id IS NOT NULL
    ORDER BY tick.nominal_at DESC
    LIMIT {newest}
  ) AS recent
  JOIN warrener_jobs AS done ON done.job_id = recent.job_id
  WHERE done.state = 'succeeded'
) END, schedule.xmin
FROM warrener_schedules AS schedule
LEFT JOIN warrener_jobs AS job ON job.job_id = schedule.last_job_id
WHERE schedule.wake_at <= $1::timestamptz
ORDER BY schedule.wake_at, schedule.name
LIMIT $2::bigint

-- name: schedules
-- Schedules of these names, or all.
SELECT {schedule}
FROM warrener_schedules AS schedule
WHERE $1::text[] IS NULL OR schedule.name = ANY($1::text[])
ORDER BY schedule.name

-- name: skip_waiting
-- Skip waiting ticks of removed schedules.
UPDATE warrener_ticks
SET status = 'skipped', reason = $2, decided_at = $3::timestamptz
WHERE schedule = ANY($1::text[]) AND status = 'waiting'

-- name: replan_schedules
-- Wake schedules that were planned by another time zone database.
UPDATE warrener_schedules SET wake_at = $2::timestamptz WHERE zone_version <> $1 AND wake_at > $2::timestamptz

-- name: restart_watches
-- Ignore everything before that moment.
UPDATE warrener_schedule_watches SET since = greatest(since, $2::timestamptz) WHERE name = ANY($1::text[])

-- name: pause_schedules
-- Pause or resume. A paused schedule goes on ticking: each tick of the pause is stored as skipped.
UPDATE warrener_schedules SET paused = $2, pause_reason = $3 WHERE name = ANY($1::text[])

-- name: remove_schedules
-- Delete schedules; their ticks stay.
DELETE FROM warrener_schedules WHERE name = ANY($1::text[])

-- name: remove_watches
-- Delete the expectations of these schedules.
DELETE FROM warrener_schedule_watches WHERE name = ANY($1::text[])

-- name: release_schedules
-- Stop schedules from waiting for jobs that were rejected.
UPDATE warrener_schedules AS schedule SET last_job_id = NULL
FROM {batch name text, job_id uuid} AS batch
WHERE schedule.name = batch.name AND schedule.last_job_id = batch.job_id

-- name: note_rejections
-- Store the reason of ticks whose requests were rejected. No index has their jobs, so it reads the newest ticks.
UPDATE warrener_ticks AS tick SET reason = batch.reason
FROM {batch schedule text, job_id uuid, reason text} AS batch
WHERE tick.schedule = batch.schedule AND tick.nominal_at = (
  SELECT newest.nominal_at
  FROM (
    SELECT recent.nominal_at, recent.job_id
    FROM warrener_ticks AS recent
    WHERE recent.schedule = batch.schedule
    ORDER BY recent.nominal_at DESC
    LIMIT 1000
  ) AS newest
  WHERE newest.job_id = batch.job_id
  LIMIT 1
)

-- name: mark_ticks
-- Record that the broker has the requests of these ticks; the first mark counts.
UPDATE warrener_ticks AS tick
SET fired_at = batch.fired_at, wake_at = NULL, request = NULL
FROM {batch schedule text, nominal_at timestamptz, fired_at timestamptz} AS batch
WHERE tick.schedule = batch.schedule AND tick.nominal_at = batch.nominal_at AND tick.request IS NOT NULL

-- name: note_successes
-- Store the newest success of watched schedules.
UPDATE warrener_schedule_watches AS watch
SET last_success_tick = batch.last_success_tick, last_success_at = batch.last_success_at
FROM {batch name text, last_success_tick timestamptz, last_success_at timestamptz} AS batch
WHERE watch.name = batch.name AND (watch.last_success_tick IS NULL OR watch.last_success_tick < batch.last_success_tick)

-- name: note_bound
-- Record addresses that may be bound at the broker.
INSERT INTO warrener_trigger_bindings (exchange, key)
SELECT * FROM {batch exchange text, key text} AS batch WHERE true
ORDER BY batch.exchange, batch.key
ON CONFLICT (exchange, key) DO NOTHING

-- name: forget_bound
-- Record addresses that are no longer bound.
DELETE FROM warrener_trigger_bindings WHERE (exchange, key) IN (SELECT batch.exchange, batch.key FROM {batch exchange text, key text} AS batch)

-- name: list_schedules
-- A page of schedules by the primary key. A filter reads on from name to name until the page is full.
SELECT {schedule}
FROM warrener_schedules AS schedule
WHERE schedule.name > $1
  AND ($2::text IS NULL OR strpos(lower(schedule.name), $2::text) > 0)
  AND ($3::text IS NULL OR schedule.definition::json ->> 'owner' = $3::text)
  AND ($4::text IS NULL OR schedule.definition::json ->> 'job_type' = $4::text)
  AND ($5::boolean IS NULL OR schedule.paused = $5::boolean)
  AND ($6::timestamptz IS NULL OR schedule.wake_at < $6::timestamptz OR schedule.next_at < $6::timestamptz)
  AND (NOT $7::boolean OR (schedule.wake_at IS NULL AND schedule.next_at IS NULL))
ORDER BY schedule.name
LIMIT $8

-- name: decided_again
-- Part of the statements that insert ticks.
ON CONFLICT (schedule, nominal_at) DO UPDATE SET
  status = excluded.status,
  decided_at = excluded.decided_at,
  reason = excluded.reason,
  job_id = excluded.job_id,
  wake_at = excluded.wake_at,
  request = excluded.request

-- name: put_again
-- Part of the statements that put schedules: an older definition does not replace a newer one, an equal one changes nothing.
ON CONFLICT (name) DO UPDATE SET
  definition = excluded.definition,
  put_at = excluded.put_at,
  zone_version = excluded.zone_version,
  next_at = excluded.next_at,
  wake_at = CASE WHEN held.waiting > 0 THEN excluded.put_at ELSE excluded.wake_at END
WHERE held.put_at <= excluded.put_at AND held.definition <> excluded.definition
