-- Delete these occurrences of incidents.
DELETE FROM warrener_case_entries
WHERE (fingerprint, occurrence) IN (
  SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each($1)
)
RETURNING 1
