-- name: lock_gates
-- Insert the gates of ?1 (name, slots, announced at) that are new;
-- ?3: others have what a newer announcement says from now on.
INSERT INTO warrener_gates AS held (gate, slots, declared_at, updated_at)
SELECT named.value ->> 0, named.value ->> 1, named.value ->> 2, ?2
FROM json_each(?1) AS named
WHERE true
{redeclare} WHERE ?3 AND {is_redeclared}

-- name: renew_slots
-- Note that slots which jobs of ?1 (id, attempt, gate, since) have already are taken for a later attempt.
UPDATE warrener_slots AS slot
SET attempt = max(slot.attempt, need.attempt), taken_at = ?2
FROM (
  SELECT value ->> 0 AS job_id, value ->> 1 AS attempt, value ->> 2 AS gate FROM json_each(?1)
) AS need
WHERE slot.job_id = need.job_id AND slot.gate = need.gate

-- name: take_slots
-- Take slots for the jobs of ?1 (id, attempt, gate, since), which want them in that order: a job gets all that it lacks, or
-- none. ?3: only behind those that wait; ?4: not for jobs that exist.
WITH RECURSIVE claim AS MATERIALIZED (
  SELECT
    need.value ->> 0 AS job_id, need.value ->> 1 AS attempt, need.value ->> 2 AS gate,
    need.value ->> 3 AS since, need.key AS place
  FROM json_each(?1) AS need
),
wanted AS MATERIALIZED (
  SELECT claim.*, row_number() OVER (PARTITION BY claim.gate ORDER BY claim.place) AS rank
  FROM claim
  WHERE
    NOT EXISTS (SELECT 1 FROM warrener_slots AS slot WHERE slot.job_id = claim.job_id AND slot.gate = claim.gate)
    AND NOT (?4 AND EXISTS (SELECT 1 FROM warrener_jobs AS job WHERE job.job_id = claim.job_id))
),
room AS MATERIALIZED (
  SELECT
    known.gate, coalesce(known.set_slots, known.slots) AS slots,
    (SELECT count(*) FROM warrener_slots AS slot WHERE slot.gate = known.gate) AS taken
  FROM warrener_gates AS known
  WHERE known.gate IN (SELECT wanted.gate FROM wanted)
),
refused AS MATERIALIZED (
  SELECT wanted.job_id
  FROM wanted
  JOIN room ON room.gate = wanted.gate
  WHERE
    wanted.rank + room.taken > room.slots
    OR (?3 AND EXISTS (
      SELECT 1 FROM warrener_gate_waiters AS line
      WHERE line.gate = wanted.gate AND (line.since, line.job_id) < (wanted.since, wanted.job_id)
    ))
),
granted AS MATERIALIZED (
  SELECT wanted.*, row_number() OVER (PARTITION BY wanted.gate ORDER BY wanted.place) AS nth
  FROM wanted
  WHERE wanted.job_id NOT IN (SELECT refused.job_id FROM refused)
),
needs AS MATERIALIZED (
  SELECT room.gate, room.taken + count(*) AS last
  FROM room JOIN granted ON granted.gate = room.gate
  GROUP BY room.gate, room.taken
),
series (gate, number, last) AS (
  SELECT gate, 1, last FROM needs
  UNION ALL
  SELECT gate, number + 1, last FROM series WHERE number < last
),
free AS MATERIALIZED (
  SELECT series.gate, series.number, row_number() OVER (PARTITION BY series.gate ORDER BY series.number) AS nth
  FROM series
  WHERE NOT EXISTS (
    SELECT 1 FROM warrener_slots AS slot WHERE slot.gate = series.gate AND slot.number = series.number
  )
)
INSERT INTO warrener_slots ({slot})
SELECT granted.gate, free.number, granted.job_id, granted.attempt, ?2
FROM granted
JOIN free ON free.gate = granted.gate AND free.nth = granted.nth

-- name: release_slots
-- Free the slots that the jobs of ?1 (id, attempt) have taken for these attempts or earlier ones.
DELETE FROM warrener_slots
WHERE rowid IN (
  SELECT slot.rowid
  FROM json_each(?1) AS batch
  CROSS JOIN warrener_slots AS slot ON slot.job_id = batch.value ->> 0
  WHERE slot.attempt <= batch.value ->> 1
)
RETURNING gate

-- name: drop_slots
-- Free a slot, unless it was taken again.
DELETE FROM warrener_slots WHERE gate = ?1 AND number = ?2 AND job_id = ?3 AND taken_at = ?5

-- name: remove_waiters
-- Take a job out of its line, unless it waits there again.
DELETE FROM warrener_gate_waiters WHERE job_id = ?1 AND gate = ?2 AND since = ?3

-- name: gate_rooms
-- The slots of these gates, how many are free, and whether jobs wait; a gate that is unknown has one.
SELECT
  named.value,
  coalesce(known.set_slots, known.slots, 1),
  max(0, coalesce(known.set_slots, known.slots, 1) - (
    SELECT count(*) FROM warrener_slots AS slot WHERE slot.gate = named.value
  )),
  EXISTS (SELECT 1 FROM warrener_gate_waiters AS line WHERE line.gate = named.value)
FROM json_each(?1) AS named
LEFT JOIN warrener_gates AS known ON known.gate = named.value

-- name: line_heads
-- The first ?2 jobs that wait before each of these gates.
SELECT head.job_id, head.gate, head.since
FROM json_each(?1) AS named
CROSS JOIN warrener_gate_waiters AS head ON head.rowid IN (
  SELECT line.rowid FROM warrener_gate_waiters AS line
  WHERE line.gate = named.value
  ORDER BY line.since, line.job_id
  LIMIT ?2
)
ORDER BY head.gate, head.since, head.job_id

-- name: wake_waiters
-- Make waiting and retrying jobs due. The + keeps SQLite to the primary key.
UPDATE warrener_jobs
SET wake_at = ?2, version = version + 1
WHERE job_id IN (SELECT value FROM json_each(?1)) AND +state IN ('waiting', 'retrying') AND +wake_at > ?2
