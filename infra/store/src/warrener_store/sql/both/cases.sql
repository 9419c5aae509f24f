-- Cases, the last raised first; the closed ones too.
SELECT {case}
FROM warrener_cases AS cases
ORDER BY cases.last_seen_at DESC, cases.fingerprint DESC
LIMIT $1
