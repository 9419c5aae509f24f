-- Nothing more is to be done about the entries of a case that is closed.
UPDATE warrener_case_entries
SET done = {over}
WHERE fingerprint = ?1 AND done < {over}
  AND EXISTS (SELECT 1 FROM warrener_cases AS cases WHERE cases.fingerprint = ?1 AND cases.closed_at IS NOT NULL)
