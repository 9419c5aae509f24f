-- Cases by their key.
SELECT {case}
FROM warrener_cases AS cases
WHERE cases.fingerprint IN (SELECT value FROM json_each(?1))
