-- name: lock_gates
-- Lock the gates of $1 (name, slots, announced at) in order, and insert those that are new;
-- $3: others have what a newer announcement says from now on.
INSERT INTO warrener_gates AS held (gate, slots, declared_at, updated_at)
SELECT named ->> 0 AS gate, (named ->> 1)::integer, (named ->> 2)::timestamptz, $2::timestamptz
FROM json_array_elements($1::json) AS named
ORDER BY 1
{redeclare} WHERE $3 AND {is_redeclared}

-- name: renew_slots
-- Note that slots which jobs of $1 (id, attempt, gate, since) have already are taken for a later attempt. Looked up by key:
-- a join by gate would compare each job with each slot. Slots are locked by job and gate, here and in those that free them.
WITH held AS (
  SELECT found.place, need.attempt
  FROM (
    SELECT (given ->> 0)::uuid AS job_id, (given ->> 1)::integer AS attempt, given ->> 2 AS gate
    FROM json_array_elements($1::json) AS given
    ORDER BY 1, 3
  ) AS need
  CROSS JOIN LATERAL (
    SELECT slot.ctid AS place
    FROM warrener_slots AS slot
    WHERE slot.job_id = need.job_id AND slot.gate = need.gate
    FOR NO KEY UPDATE
  ) AS found
)
UPDATE warrener_slots AS slot
SET attempt = greatest(slot.attempt, held.attempt), taken_at = $2::timestamptz
FROM held
WHERE slot.ctid = held.place

-- name: take_slots
-- Take slots for the jobs of $1 (id, attempt, gate, since), which want them in that order: a job gets all that it lacks, or
-- none. $3: only behind those that wait; $4: not for jobs that exist. Run behind lock_gates, as a statement of its own: it
-- sees all that others have taken under the lock.
-- OFFSET 0, and the order of numbers: a plan that was made for empty tables goes by the same indexes.
WITH claim AS MATERIALIZED (
  SELECT
    (need ->> 0)::uuid AS job_id, (need ->> 1)::integer AS attempt, need ->> 2 AS gate,
    (need ->> 3)::timestamptz AS since, place
  FROM json_array_elements($1::json) WITH ORDINALITY AS given (need, place)
),
wanted AS MATERIALIZED (
  SELECT claim.*, row_number() OVER (PARTITION BY claim.gate ORDER BY claim.place) AS rank
  FROM claim
  WHERE
    NOT EXISTS (SELECT 1 FROM warrener_slots AS slot WHERE slot.job_id = claim.job_id AND slot.gate = claim.gate OFFSET 0)
    AND NOT ($4 AND EXISTS (SELECT 1 FROM warrener_jobs AS job WHERE job.job_id = ANY (ARRAY[claim.job_id])))
),
room AS MATERIALIZED (
  SELECT
    known.gate, coalesce(known.set_slots, known.slots) AS slots,
    (
      SELECT count(*)
      FROM (SELECT FROM warrener_slots AS slot WHERE slot.gate = known.gate ORDER BY slot.number OFFSET 0) AS one
    ) AS taken
  FROM warrener_gates AS known
  WHERE known.gate IN (SELECT wanted.gate FROM wanted)
),
refused AS (
  SELECT wanted.job_id
  FROM wanted
  JOIN room ON room.gate = wanted.gate
  WHERE
    wanted.rank + room.taken > room.slots
    OR ($3 AND EXISTS (
      SELECT 1 FROM warrener_gate_waiters AS line
      WHERE line.gate = wanted.gate AND (line.since, line.job_id) < (wanted.since, wanted.job_id)
    ))
),
granted AS MATERIALIZED (
  SELECT wanted.*, row_number() OVER (PARTITION BY wanted.gate ORDER BY wanted.place) AS nth
  FROM wanted
  WHERE wanted.job_id NOT IN (SELECT refused.job_id FROM refused)
),
free AS (
  SELECT room.gate, series.number, row_number() OVER (PARTITION BY room.gate ORDER BY series.number) AS nth
  FROM room
  CROSS JOIN LATERAL (
    SELECT number::integer
    FROM generate_series(1, room.taken + (SELECT count(*) FROM granted WHERE granted.gate = room.gate)) AS number
    EXCEPT
    (SELECT slot.number FROM warrener_slots AS slot WHERE slot.gate = room.gate ORDER BY slot.number OFFSET 0)
  ) AS series
  WHERE room.gate IN (SELECT granted.gate FROM granted)
)
INSERT INTO warrener_slots ({slot})
SELECT granted.gate, free.number, granted.job_id, granted.attempt, $2::timestamptz
FROM granted
JOIN free ON free.gate = granted.gate AND free.nth = granted.nth

-- name: release_slots
-- Free the slots that these jobs have taken for these attempts or earlier ones.
WITH held AS (
  SELECT found.gate, found.number
  FROM (SELECT * FROM unnest($1::uuid[], $2::integer[]) AS ended (job_id, attempt) ORDER BY 1) AS batch
  CROSS JOIN LATERAL (
    SELECT slot.gate, slot.number
    FROM warrener_slots AS slot
    WHERE slot.job_id = batch.job_id AND slot.attempt <= batch.attempt
    ORDER BY slot.gate
    FOR UPDATE
  ) AS found
)
DELETE FROM warrener_slots AS slot
USING held
WHERE slot.gate = ANY (ARRAY[held.gate]) AND slot.number = ANY (ARRAY[held.number])
RETURNING slot.gate

-- name: drop_slots
-- Free these slots, unless they were taken again.
WITH held AS (
  SELECT found.gate, found.number
  FROM (
    SELECT *
    FROM unnest($1::text[], $2::integer[], $3::uuid[], $4::integer[], $5::timestamptz[]) AS read ({slot})
    ORDER BY read.job_id, read.gate
  ) AS batch
  CROSS JOIN LATERAL (
    SELECT slot.gate, slot.number
    FROM warrener_slots AS slot
    WHERE
      slot.gate = batch.gate AND slot.number = batch.number
      AND slot.job_id = batch.job_id AND slot.taken_at = batch.taken_at
    FOR UPDATE
  ) AS found
)
DELETE FROM warrener_slots AS slot
USING held
WHERE slot.gate = ANY (ARRAY[held.gate]) AND slot.number = ANY (ARRAY[held.number])

-- name: remove_waiters
-- Take these out of their lines, unless they wait there again. A join by gate would read the whole line.
DELETE FROM warrener_gate_waiters AS line
USING unnest($1::uuid[], $2::text[], $3::timestamptz[]) AS batch ({gate_waiter})
WHERE
  line.job_id = ANY (ARRAY[batch.job_id])
  AND line.gate = ANY (ARRAY[batch.gate]) AND line.since = ANY (ARRAY[batch.since])

-- name: gate_rooms
-- The slots of these gates, how many are free, and whether jobs wait; a gate that is unknown has one. Planned as in
-- take_slots.
SELECT
  named.gate,
  coalesce(known.set_slots, known.slots, 1),
  greatest(0, coalesce(known.set_slots, known.slots, 1) - (
    SELECT count(*)
    FROM (SELECT FROM warrener_slots AS slot WHERE slot.gate = named.gate ORDER BY slot.number OFFSET 0) AS one
  )),
  EXISTS (SELECT 1 FROM warrener_gate_waiters AS line WHERE line.gate = named.gate OFFSET 0)
FROM unnest($1::text[]) AS named (gate)
LEFT JOIN warrener_gates AS known ON known.gate = named.gate

-- name: line_heads
-- The first $2 jobs that wait before each of these gates.
SELECT head.job_id, head.gate, head.since
FROM unnest($1::text[]) AS named (gate)
CROSS JOIN LATERAL (
  SELECT line.job_id, line.gate, line.since
  FROM warrener_gate_waiters AS line
  WHERE line.gate = named.gate
  ORDER BY line.since, line.job_id
  LIMIT $2
) AS head
ORDER BY head.gate, head.since, head.job_id

-- name: wake_waiters
-- Make waiting and retrying jobs due. Locked in the order of ids and looked up by key, as in mark_unpublished.
WITH held AS (
  SELECT found.job_id
  FROM (SELECT unnest($1::uuid[]) AS job_id ORDER BY 1) AS batch
  CROSS JOIN LATERAL (
    SELECT job.job_id
    FROM warrener_jobs AS job
    WHERE job.job_id = batch.job_id AND (job.state IN ('waiting', 'retrying')) IS TRUE AND job.wake_at > $2::timestamptz
    FOR NO KEY UPDATE
  ) AS found
)
UPDATE warrener_jobs AS job
SET wake_at = $2::timestamptz, version = job.version + 1
FROM held
WHERE job.job_id = ANY (ARRAY[held.job_id])
