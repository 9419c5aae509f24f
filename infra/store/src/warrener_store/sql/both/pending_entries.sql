-- What of a case a step is not yet through with.
SELECT occurrence, subject, raised_at, done
FROM warrener_case_entries
WHERE fingerprint = $1 AND done < $2
ORDER BY raised_at, occurrence
LIMIT $3
