-- Cases, the last raised first; the closed ones too if that is asked for.
SELECT {case}
FROM warrener_cases AS cases
WHERE cases.closed_at IS NULL OR $1
ORDER BY cases.last_seen_at DESC, cases.fingerprint DESC
LIMIT $2
