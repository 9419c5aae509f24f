-- Occurrences of incidents that were raised long ago, a portion.
SELECT fingerprint, occurrence, subject, raised_at
FROM warrener_case_entries
WHERE raised_at < $1
ORDER BY raised_at, fingerprint, occurrence
LIMIT $2
