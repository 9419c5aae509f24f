-- Delete occurrences of incidents that were raised long ago, a portion.
DELETE FROM warrener_case_entries
WHERE rowid IN (SELECT rowid FROM warrener_case_entries WHERE raised_at < $1 ORDER BY raised_at LIMIT $2)
RETURNING 1
