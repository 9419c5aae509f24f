-- How far a claimed case has come, and its claim is given back.
--
-- What was raised while it was claimed has woken it: it stays awake, and open.
UPDATE warrener_cases SET
  step = ?4,
  due_at = ?5,
  tries = ?6,
  delivered = ?7,
  trouble = ?8,
  wake_at = CASE WHEN times = ?3 THEN ?9 ELSE wake_at END,
  claimed_by = NULL,
  claimed_until = NULL,
  closed_at = CASE WHEN times = ?3 THEN ?10 END,
  closed_why = CASE WHEN times = ?3 THEN ?11 END
WHERE fingerprint = ?1 AND claimed_by = ?2 AND closed_at IS NULL
RETURNING fingerprint
