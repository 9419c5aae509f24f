-- name: pending_entries
-- Occurrences of an incident that a step has not handled yet.
SELECT occurrence, subject, raised_at, steps_done
FROM warrener_incident_occurrences
WHERE fingerprint = $1 AND steps_done < $2
ORDER BY raised_at, occurrence
LIMIT $3

-- name: incidents
-- Incidents, the last raised first; closed ones too.
SELECT {incident}
FROM warrener_incidents AS incidents
ORDER BY incidents.last_seen_at DESC, incidents.fingerprint DESC
LIMIT $1

-- name: open_incidents
-- Open incidents, the last raised first.
SELECT {incident}
FROM warrener_incidents AS incidents
WHERE incidents.closed_at IS NULL
ORDER BY incidents.last_seen_at DESC, incidents.fingerprint DESC
LIMIT $1

-- name: incidents_by_fingerprint
-- Incidents by their key, the last raised first; closed ones too, if the second parameter says so.
SELECT {incident}
FROM warrener_incidents AS incidents
WHERE incidents.fingerprint = ANY($1::text[]) AND ($2::boolean OR incidents.closed_at IS NULL)
ORDER BY incidents.last_seen_at DESC, incidents.fingerprint DESC

-- name: settle_entries
-- Raise `steps_done` of these occurrences; one with a greater value keeps it.
UPDATE warrener_incident_occurrences
SET steps_done = $3::integer
WHERE fingerprint = $1::text AND occurrence = ANY($2::text[]) AND steps_done < $3::integer
