-- How far a claimed case has come, and its claim is given back; closing it ends its entries.
--
-- What was raised while it was claimed has woken it: it stays awake, and open.
WITH changed AS (
  UPDATE warrener_cases SET
    step = $4::integer,
    due_at = $5::timestamptz,
    tries = $6::integer,
    delivered = $7::text,
    trouble = $8::text,
    wake_at = CASE WHEN times = $3::integer THEN $9::timestamptz ELSE wake_at END,
    claimed_by = NULL,
    claimed_until = NULL,
    closed_at = CASE WHEN times = $3::integer THEN $10::timestamptz END,
    closed_why = CASE WHEN times = $3::integer THEN $11::text END
  WHERE fingerprint = $1::text AND claimed_by = $2::text AND closed_at IS NULL
  RETURNING fingerprint, closed_at
), ended AS (
  UPDATE warrener_case_entries AS entry
  SET done = {over}
  FROM changed
  WHERE changed.closed_at IS NOT NULL AND entry.fingerprint = changed.fingerprint AND entry.done < {over}
)
SELECT fingerprint FROM changed
