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
WHERE (incidents.last_seen_at, incidents.fingerprint) < ($2::timestamptz, $3::text)
ORDER BY incidents.last_seen_at DESC, incidents.fingerprint DESC
LIMIT $1

-- name: open_incidents
-- Open incidents, the last raised first.
SELECT {incident}
FROM warrener_incidents AS incidents
WHERE incidents.closed_at IS NULL
  AND (incidents.last_seen_at, incidents.fingerprint) < ($2::timestamptz, $3::text)
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

-- name: put_policies
-- Insert versions of policies. A version that is there was seen at both times, too: a moment before the first one
-- shows that the database's clock was set back.
INSERT INTO warrener_escalation_policies AS held ({policy_version})
SELECT *
FROM {batch version text, name text, definition text, first_seen_at timestamptz, last_seen_at timestamptz} AS batch
WHERE true
ORDER BY batch.version
ON CONFLICT (version) DO UPDATE SET
  first_seen_at = CASE
    WHEN held.first_seen_at < excluded.first_seen_at THEN held.first_seen_at
    ELSE excluded.first_seen_at END,
  last_seen_at = CASE
    WHEN held.last_seen_at > excluded.last_seen_at THEN held.last_seen_at
    ELSE excluded.last_seen_at END

-- name: policies
-- All versions of policies: few, and those that no incident and no file has any longer are deleted.
SELECT {policy_version}
FROM warrener_escalation_policies
ORDER BY first_seen_at, version

-- name: raised_again
-- Part of the statements that raise incidents: an open one is counted on, a closed one begins again.
ON CONFLICT (fingerprint) DO UPDATE SET
  kind = excluded.kind,
  subject = excluded.subject,
  job_type = excluded.job_type,
  sample = excluded.sample,
  times = excluded.times + CASE WHEN held.closed_at IS NULL THEN held.times ELSE 0 END,
  first_seen_at = CASE WHEN held.closed_at IS NULL THEN held.first_seen_at ELSE excluded.first_seen_at END,
  last_seen_at = CASE
    WHEN held.closed_at IS NULL AND held.last_seen_at > excluded.last_seen_at THEN held.last_seen_at
    ELSE excluded.last_seen_at END,
  round = held.round + CASE WHEN held.closed_at IS NULL THEN 0 ELSE 1 END,
  step = CASE WHEN held.closed_at IS NULL THEN held.step ELSE 0 END,
  due_at = CASE WHEN held.closed_at IS NULL THEN held.due_at END,
  failed_tries = CASE WHEN held.closed_at IS NULL THEN held.failed_tries ELSE 0 END,
  delivered = CASE WHEN held.closed_at IS NULL THEN held.delivered ELSE excluded.delivered END,
  last_error = CASE WHEN held.closed_at IS NULL THEN held.last_error END,
  wake_at = CASE
    WHEN held.closed_at IS NULL AND held.wake_at < excluded.wake_at THEN held.wake_at
    ELSE excluded.wake_at END,
  policy_version = CASE WHEN held.closed_at IS NULL THEN held.policy_version END,
  policy_history = CASE WHEN held.closed_at IS NULL THEN held.policy_history END,
  claimed_by = CASE WHEN held.closed_at IS NULL THEN held.claimed_by END,
  claimed_until = CASE WHEN held.closed_at IS NULL THEN held.claimed_until END,
  acknowledged_by = CASE WHEN held.closed_at IS NULL THEN held.acknowledged_by END,
  acknowledged_at = CASE WHEN held.closed_at IS NULL THEN held.acknowledged_at END,
  snoozed_until = CASE WHEN held.closed_at IS NULL THEN held.snoozed_until END,
  closed_at = NULL,
  close_reason = NULL
