-- Open cases, the last raised first.
SELECT {case}
FROM warrener_cases AS cases
WHERE cases.closed_at IS NULL
ORDER BY cases.last_seen_at DESC, cases.fingerprint DESC
LIMIT $1
