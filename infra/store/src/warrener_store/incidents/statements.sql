-- name: pending_entries
-- Occurrences of an incident that a step has not handled yet.
SELECT occurrence, subject, raised_at, done
FROM warrener_case_entries
WHERE fingerprint = $1 AND done < $2
ORDER BY raised_at, occurrence
LIMIT $3

-- name: cases
-- Incidents, the last raised first; closed ones too.
SELECT {case}
FROM warrener_cases AS cases
ORDER BY cases.last_seen_at DESC, cases.fingerprint DESC
LIMIT $1

-- name: open_cases
-- Open incidents, the last raised first.
SELECT {case}
FROM warrener_cases AS cases
WHERE cases.closed_at IS NULL
ORDER BY cases.last_seen_at DESC, cases.fingerprint DESC
LIMIT $1

-- name: cases_by_fingerprint
-- Incidents by their key.
SELECT {case}
FROM warrener_cases AS cases
WHERE cases.fingerprint = ANY($1::text[])

-- name: settle_entries
-- Raise `done` of these occurrences; one with a greater value keeps it.
UPDATE warrener_case_entries
SET done = $3::integer
WHERE fingerprint = $1::text AND occurrence = ANY($2::text[]) AND done < $3::integer
