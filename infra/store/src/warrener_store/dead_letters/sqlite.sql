-- name: claim_redrives
-- Claim redrives that were found due: move their wake_at. One writer at a time, so no two claim the same.
UPDATE warrener_redrives
SET wake_at = ?2, version = version + 1
WHERE redrive_id IN (SELECT value FROM json_each(?1))

-- name: due_redrives
-- Redrives that are due.
SELECT {redrive}
FROM warrener_redrives AS redrive
WHERE wake_at <= ?1
ORDER BY wake_at, redrive_id
LIMIT ?2

-- name: save_redrive
-- Write a redrive's progress if its version is the one that was decided on.
UPDATE warrener_redrives
SET
  version = ?1,
  state = ?2,
  stop_reason = ?3,
  counts = ?4,
  started_at = ?5,
  counts_at_start = ?6,
  journal = ?7,
  wake_at = ?8,
  updated_at = ?9,
  finished_at = ?10,
  after_died_at = ?11,
  after_job_id = ?12
WHERE redrive_id = ?13 AND version = ?1 - 1
RETURNING redrive_id

-- name: move_dead_letter
-- Move a dead letter from the state in which it was found, unless another redrive has it.
UPDATE warrener_dead_letters
SET
  state = ?3,
  redrive_id = ?4,
  redriven_as = ?5,
  redrives = ?6,
  redriven_at = ?7,
  note = ?8
WHERE
  job_id = ?2 AND state = ?1
  AND (state IN ('open', 'reopened', 'rejected') OR redrive_id = ?9)
