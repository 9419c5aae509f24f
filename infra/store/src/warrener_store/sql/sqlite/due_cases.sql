-- Cases that are due and that nobody holds.
SELECT {case}
FROM warrener_cases AS cases
WHERE cases.wake_at <= ?1 AND (cases.claimed_until IS NULL OR cases.claimed_until <= ?1)
ORDER BY cases.wake_at, cases.fingerprint
LIMIT ?2
