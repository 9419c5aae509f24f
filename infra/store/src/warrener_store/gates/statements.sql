-- name: redeclare
-- What a gate that is there has of another announcement.
ON CONFLICT (gate) DO UPDATE
SET slots = excluded.slots, declared_at = excluded.declared_at, updated_at = excluded.updated_at

-- name: is_redeclared
-- True if a newer announcement, or one whose time is not known, is about a gate.
(
  excluded.declared_at > held.declared_at
  OR (excluded.declared_at IS NULL OR held.declared_at IS NULL)
  AND (held.slots <> excluded.slots OR held.declared_at IS NULL AND excluded.declared_at IS NOT NULL)
)

-- name: held_slots
-- The gates of which these jobs have a slot.
SELECT job_id, gate FROM warrener_slots WHERE job_id = ANY($1::uuid[])

-- name: add_waiters
-- Put jobs into the lines of gates. One that waits there already moves, unless it has begun to wait later.
INSERT INTO warrener_gate_waiters AS held ({gate_waiter})
SELECT * FROM {batch job_id uuid, gate text, since timestamptz} AS batch WHERE true
ORDER BY batch.job_id
ON CONFLICT (job_id) DO UPDATE SET gate = excluded.gate, since = excluded.since
WHERE excluded.since >= held.since

-- name: set_slots
-- Set the slots of a gate, whatever is announced.
INSERT INTO warrener_gates (gate, slots, set_slots, updated_at) VALUES ($1, $2, $2, $3)
ON CONFLICT (gate) DO UPDATE SET set_slots = excluded.set_slots, updated_at = excluded.updated_at

-- name: reset_slots
-- Have a gate follow announcements again.
UPDATE warrener_gates SET set_slots = NULL, updated_at = $2 WHERE gate = $1

-- name: gates_from
-- A page of gates from $1 on, in order, with what is taken and who waits, counted up to $3.
SELECT
  known.gate, known.slots, known.set_slots,
  (SELECT count(*) FROM warrener_slots AS slot WHERE slot.gate = known.gate),
  (
    SELECT count(*)
    FROM (SELECT 1 FROM warrener_gate_waiters AS line WHERE line.gate = known.gate LIMIT $3) AS one
  )
FROM warrener_gates AS known
WHERE known.gate >= $1
ORDER BY known.gate
LIMIT $2

-- name: slots_after
-- A page of all slots, in order.
SELECT {slot} FROM warrener_slots WHERE (gate, number) > ($1, $2) ORDER BY gate, number LIMIT $3

-- name: slots_of
-- The first slots of a gate that are taken.
SELECT {slot} FROM warrener_slots WHERE gate = $1 ORDER BY number LIMIT $2

-- name: waited_gates
-- The gates after $1 that jobs wait before. Jumps through the index from one to the next, so it costs by gates.
WITH RECURSIVE heads AS (
  SELECT (SELECT line.gate FROM warrener_gate_waiters AS line WHERE line.gate > $1 ORDER BY line.gate LIMIT 1) AS gate
  UNION ALL
  SELECT (SELECT line.gate FROM warrener_gate_waiters AS line WHERE line.gate > heads.gate ORDER BY line.gate LIMIT 1)
  FROM heads
  WHERE heads.gate IS NOT NULL
)
SELECT gate FROM heads WHERE gate IS NOT NULL LIMIT $2

-- name: waiter_of
-- Where a job waits.
SELECT {gate_waiter} FROM warrener_gate_waiters WHERE job_id = $1

-- name: place_in_line
-- How many jobs wait before one, counted up to $4.
SELECT count(*) FROM (
  SELECT 1 FROM warrener_gate_waiters WHERE gate = $1 AND (since, job_id) < ($2, $3) LIMIT $4
) AS before

-- name: idle_gates
-- A page of all gates after $1, in order; and which of them have not changed since $2 and are not used.
SELECT
  gate,
  updated_at < $2
  AND set_slots IS NULL
  AND NOT EXISTS (SELECT 1 FROM warrener_slots AS slot WHERE slot.gate = kept.gate)
  AND NOT EXISTS (SELECT 1 FROM warrener_gate_waiters AS line WHERE line.gate = kept.gate)
FROM warrener_gates AS kept
WHERE gate > $1
ORDER BY gate
LIMIT $3

-- name: drop_gates
-- Delete gates, but for those that somebody has set meanwhile. One that is used all the same comes again with
-- the next claim.
DELETE FROM warrener_gates WHERE gate = ANY($1::text[]) AND set_slots IS NULL
