-- Delete occurrences of incidents that were raised long ago, a portion.
DELETE FROM warrener_case_entries
WHERE ctid = ANY (ARRAY(
  SELECT ctid
  FROM warrener_case_entries
  WHERE raised_at < $1::timestamptz
  ORDER BY raised_at
  LIMIT $2::bigint
  FOR UPDATE SKIP LOCKED
))
RETURNING 1
