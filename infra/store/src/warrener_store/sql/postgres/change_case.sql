-- What a person says about an open case; it wakes, or is over with all its entries.
WITH changed AS (
  UPDATE warrener_cases SET
    acknowledged_by = COALESCE($3::text, acknowledged_by),
    acknowledged_at = CASE WHEN $3::text IS NULL THEN acknowledged_at ELSE $2::timestamptz END,
    snoozed_until = COALESCE($4::timestamptz, snoozed_until),
    wake_at = CASE WHEN $5::text IS NULL THEN $2::timestamptz END,
    closed_at = CASE WHEN $5::text IS NULL THEN NULL ELSE $2::timestamptz END,
    closed_why = $5::text
  WHERE fingerprint = $1::text AND closed_at IS NULL
  RETURNING fingerprint, closed_at
), ended AS (
  UPDATE warrener_case_entries AS entry
  SET done = {over}
  FROM changed
  WHERE changed.closed_at IS NOT NULL AND entry.fingerprint = changed.fingerprint AND entry.done < {over}
)
SELECT fingerprint FROM changed
