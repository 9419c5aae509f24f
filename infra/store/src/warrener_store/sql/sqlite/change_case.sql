-- What a person says about an open case; it wakes, or is over.
UPDATE warrener_cases SET
  acknowledged_by = COALESCE(?3, acknowledged_by),
  acknowledged_at = CASE WHEN ?3 IS NULL THEN acknowledged_at ELSE ?2 END,
  snoozed_until = COALESCE(?4, snoozed_until),
  wake_at = CASE WHEN ?5 IS NULL THEN ?2 END,
  closed_at = CASE WHEN ?5 IS NULL THEN NULL ELSE ?2 END,
  closed_why = ?5
WHERE fingerprint = ?1 AND closed_at IS NULL
RETURNING fingerprint
