-- Claim cases that were found due. There is one writer at a time, so no two claim the same.
UPDATE warrener_cases
SET claimed_until = ?2, claimed_by = ?3
WHERE fingerprint IN (SELECT value FROM json_each(?1))
