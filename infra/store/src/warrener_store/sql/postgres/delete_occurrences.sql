-- Delete these occurrences of incidents; not what another caller holds.
DELETE FROM warrener_case_entries
WHERE ctid = ANY (ARRAY(
  SELECT entry.ctid
  FROM unnest($1::text[], $2::text[]) AS told (fingerprint, occurrence)
  CROSS JOIN LATERAL (
    SELECT held.ctid
    FROM warrener_case_entries AS held
    WHERE held.fingerprint = told.fingerprint AND held.occurrence = told.occurrence
    FOR UPDATE SKIP LOCKED
  ) AS entry
))
RETURNING 1
