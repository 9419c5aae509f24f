-- Cases by their key.
SELECT {case}
FROM warrener_cases AS cases
WHERE cases.fingerprint = ANY($1::text[])
