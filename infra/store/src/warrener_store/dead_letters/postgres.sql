-- name: claim_redrives
-- Claim redrives that are due: move their wake_at. SKIP LOCKED: rows that another caller is claiming belong to it.
WITH due AS (
  SELECT redrive_id, wake_at
  FROM warrener_redrives
  WHERE wake_at <= $1::timestamptz
  ORDER BY wake_at, redrive_id
  LIMIT $3::bigint
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE warrener_redrives AS redrive
SET wake_at = $2::timestamptz, version = redrive.version + 1
FROM due
WHERE redrive.redrive_id = due.redrive_id
RETURNING {redrive}, due.wake_at AS was_due_at

-- name: save_redrive
-- Write a redrive's progress if its version is the one that was decided on, and move its dead letters with it.
WITH held AS (
  UPDATE warrener_redrives
  SET
    version = $2::integer,
    state = $3,
    stop_reason = $4,
    counts = $5,
    started_at = $6::timestamptz,
    counts_at_start = $7,
    journal = $8,
    wake_at = $9::timestamptz,
    updated_at = $10::timestamptz,
    finished_at = $11::timestamptz,
    after_died_at = $12::timestamptz,
    after_job_id = $13::uuid
  WHERE redrive_id = $1::uuid AND version = $2::integer - 1
  RETURNING redrive_id
),
moved AS (
  UPDATE warrener_dead_letters AS dead_letter
  SET
    state = batch.state,
    redrive_id = batch.redrive_id,
    redriven_as = batch.redriven_as,
    redrives = batch.redrives,
    redriven_at = batch.redriven_at,
    note = batch.note
  FROM unnest(
    $14::text[], $15::uuid[], $16::text[], $17::uuid[], $18::uuid[], $19::integer[], $20::timestamptz[], $21::text[]
  ) AS batch (
    held, job_id, state, redrive_id, redriven_as, redrives, redriven_at, note
  )
  CROSS JOIN held
  WHERE
    dead_letter.job_id = batch.job_id AND dead_letter.state = batch.held
    AND (dead_letter.state IN ('open', 'reopened', 'rejected') OR dead_letter.redrive_id = $1::uuid)
)
SELECT redrive_id FROM held
