-- name: raise_incidents
-- Count raised occurrences, each once; open their incidents, or reopen closed ones.
--
-- In the order of fingerprints, which prevents deadlocks between two batches.
WITH batch AS (
  SELECT DISTINCT ON (fingerprint, occurrence) *
  FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[]
  ) AS raised (fingerprint, occurrence, kind, subject, job_type, sample, raised_at)
), new AS (
  INSERT INTO warrener_incident_occurrences (fingerprint, occurrence, subject, raised_at, steps_done)
  SELECT fingerprint, occurrence, subject, raised_at, 0
  FROM batch
  ORDER BY fingerprint, occurrence
  ON CONFLICT DO NOTHING
  RETURNING fingerprint, occurrence
), counted AS (
  SELECT DISTINCT ON (fingerprint)
    batch.*,
    count(*) OVER of_incident AS times,
    min(raised_at) OVER of_incident AS since
  FROM batch JOIN new USING (fingerprint, occurrence)
  WINDOW of_incident AS (PARTITION BY fingerprint)
  ORDER BY fingerprint, raised_at DESC, occurrence DESC
)
INSERT INTO warrener_incidents AS held (
  fingerprint, kind, subject, job_type, sample, times, first_seen_at, last_seen_at, round, step,
  failed_tries, delivered, wake_at
)
SELECT fingerprint, kind, subject, job_type, sample, times, since, raised_at, 1, 0,
  0, '[]', raised_at
FROM counted
ORDER BY fingerprint
{raised_again}

-- name: claim_incidents
-- Claim incidents that are due. SKIP LOCKED: rows that another caller is claiming belong to it.
WITH due AS (
  SELECT fingerprint, wake_at
  FROM warrener_incidents
  WHERE wake_at <= $1::timestamptz AND (claimed_until IS NULL OR claimed_until <= $1::timestamptz)
  ORDER BY wake_at, fingerprint
  LIMIT $4::bigint
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE warrener_incidents AS incidents
SET claimed_until = $2::timestamptz, claimed_by = $3::text
FROM due
WHERE incidents.fingerprint = due.fingerprint
RETURNING {incident}

-- name: save_incident
-- Write the progress of a claimed incident and release its claim; closing it settles its occurrences, and a restart
-- (a greater round) settles them back.
--
-- An incident that was raised while it was claimed stays awake, and open.
WITH held AS (
  SELECT fingerprint, round FROM warrener_incidents WHERE fingerprint = $1::text
), changed AS (
  UPDATE warrener_incidents AS incidents SET
    round = $12::integer,
    policy_version = $13::text,
    policy_history = $14::text,
    step = $4::integer,
    due_at = $5::timestamptz,
    failed_tries = $6::integer,
    delivered = $7::text,
    last_error = $8::text,
    wake_at = CASE WHEN times = $3::integer THEN $9::timestamptz ELSE wake_at END,
    claimed_by = NULL,
    claimed_until = NULL,
    closed_at = CASE WHEN times = $3::integer THEN $10::timestamptz END,
    close_reason = CASE WHEN times = $3::integer THEN $11::text END
  FROM held
  WHERE incidents.fingerprint = held.fingerprint AND claimed_by = $2::text AND closed_at IS NULL
  RETURNING incidents.fingerprint, incidents.closed_at, incidents.round > held.round AS restarted
), ended AS (
  UPDATE warrener_incident_occurrences AS entry
  SET steps_done = CASE WHEN changed.closed_at IS NULL THEN 0 ELSE {over} END
  FROM changed
  WHERE (changed.closed_at IS NOT NULL OR changed.restarted)
    AND entry.fingerprint = changed.fingerprint AND entry.steps_done < {over}
)
SELECT fingerprint FROM changed

-- name: change_incident
-- Apply an operator's change to an open incident; it wakes, or closes with all its occurrences.
WITH changed AS (
  UPDATE warrener_incidents SET
    acknowledged_by = COALESCE($3::text, acknowledged_by),
    acknowledged_at = CASE WHEN $3::text IS NULL THEN acknowledged_at ELSE $2::timestamptz END,
    snoozed_until = COALESCE($4::timestamptz, snoozed_until),
    wake_at = CASE WHEN $5::text IS NULL THEN $2::timestamptz END,
    closed_at = CASE WHEN $5::text IS NULL THEN NULL ELSE $2::timestamptz END,
    close_reason = $5::text
  WHERE fingerprint = $1::text AND closed_at IS NULL
  RETURNING fingerprint, closed_at
), ended AS (
  UPDATE warrener_incident_occurrences AS entry
  SET steps_done = {over}
  FROM changed
  WHERE changed.closed_at IS NOT NULL AND entry.fingerprint = changed.fingerprint AND entry.steps_done < {over}
)
SELECT fingerprint FROM changed
