-- name: known_occurrences
-- Those of these pairs of fingerprint and occurrence that exist, by their places in the array.
SELECT batch.key
FROM json_each(?1) AS batch
JOIN warrener_incident_occurrences AS entry
  ON entry.fingerprint = json_extract(batch.value, '$[0]') AND entry.occurrence = json_extract(batch.value, '$[1]')

-- name: insert_incident_entry
-- Insert a new occurrence.
INSERT INTO warrener_incident_occurrences (fingerprint, occurrence, subject, raised_at, steps_done)
VALUES (?, ?, ?, ?, 0)

-- name: open_incident
-- Open an incident, count it further, or reopen a closed one. The occurrences counted are new in this transaction.
INSERT INTO warrener_incidents AS held (
  fingerprint, kind, subject, job_type, sample, times, first_seen_at, last_seen_at, round, step,
  failed_tries, delivered, wake_at
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, 0, 0, '[]', ?)
{raised_again}

-- name: claim_incidents
-- Claim incidents that were found due. One writer at a time, so no two claim the same.
UPDATE warrener_incidents
SET claimed_until = ?2, claimed_by = ?3
WHERE fingerprint IN (SELECT value FROM json_each(?1))

-- name: due_incidents
-- Incidents that are due and unclaimed.
SELECT {incident}
FROM warrener_incidents AS incidents
WHERE incidents.wake_at <= ?1 AND (incidents.claimed_until IS NULL OR incidents.claimed_until <= ?1)
ORDER BY incidents.wake_at, incidents.fingerprint
LIMIT ?2

-- name: save_incident
-- Write the progress of a claimed incident and release its claim.
--
-- An incident that was raised while it was claimed stays awake, and open.
UPDATE warrener_incidents SET
  round = ?12,
  policy_version = ?13,
  policy_history = ?14,
  step = ?4,
  due_at = ?5,
  failed_tries = ?6,
  delivered = ?7,
  last_error = ?8,
  wake_at = CASE WHEN times = ?3 THEN ?9 ELSE wake_at END,
  claimed_by = NULL,
  claimed_until = NULL,
  closed_at = CASE WHEN times = ?3 THEN ?10 END,
  close_reason = CASE WHEN times = ?3 THEN ?11 END
WHERE fingerprint = ?1 AND claimed_by = ?2 AND closed_at IS NULL
RETURNING fingerprint

-- name: restart_incident_occurrences
-- Settle the occurrences of a claimed incident back, if its round grows.
UPDATE warrener_incident_occurrences
SET steps_done = 0
WHERE fingerprint = ?1 AND steps_done > 0 AND steps_done < {over}
  AND EXISTS (
    SELECT 1 FROM warrener_incidents AS incidents
    WHERE incidents.fingerprint = ?1 AND incidents.claimed_by = ?2 AND incidents.closed_at IS NULL AND incidents.round < ?3
  )

-- name: change_incident
-- Apply an operator's change to an open incident; it wakes, or closes.
UPDATE warrener_incidents SET
  acknowledged_by = COALESCE(?3, acknowledged_by),
  acknowledged_at = CASE WHEN ?3 IS NULL THEN acknowledged_at ELSE ?2 END,
  snoozed_until = COALESCE(?4, snoozed_until),
  wake_at = CASE WHEN ?5 IS NULL THEN ?2 END,
  closed_at = CASE WHEN ?5 IS NULL THEN NULL ELSE ?2 END,
  close_reason = ?5
WHERE fingerprint = ?1 AND closed_at IS NULL
RETURNING fingerprint

-- name: end_incident_occurrences
-- Settle the occurrences of a closed incident.
UPDATE warrener_incident_occurrences
SET steps_done = {over}
WHERE fingerprint = ?1 AND steps_done < {over}
  AND EXISTS (SELECT 1 FROM warrener_incidents AS incidents WHERE incidents.fingerprint = ?1 AND incidents.closed_at IS NOT NULL)
