-- Count what is raised, each occurrence once; open their cases, or begin them anew where they were closed.
--
-- In the order of fingerprints, so that two batches wait for each other and not in a circle.
WITH told AS (
  SELECT DISTINCT ON (fingerprint, occurrence) *
  FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[]
  ) AS raised (fingerprint, occurrence, kind, subject, job_type, sample, raised_at)
), new AS (
  INSERT INTO warrener_case_entries (fingerprint, occurrence, subject, raised_at, done)
  SELECT fingerprint, occurrence, subject, raised_at, 0
  FROM told
  ORDER BY fingerprint, occurrence
  ON CONFLICT DO NOTHING
  RETURNING fingerprint, occurrence
), counted AS (
  SELECT DISTINCT ON (fingerprint)
    told.*,
    count(*) OVER of_case AS times,
    min(raised_at) OVER of_case AS since
  FROM told JOIN new USING (fingerprint, occurrence)
  WINDOW of_case AS (PARTITION BY fingerprint)
  ORDER BY fingerprint, raised_at DESC, occurrence DESC
)
INSERT INTO warrener_cases AS held (
  fingerprint, kind, subject, job_type, sample, times, first_seen_at, last_seen_at, round, step,
  tries, delivered, wake_at
)
SELECT fingerprint, kind, subject, job_type, sample, times, since, raised_at, 1, 0,
  0, '[]', raised_at
FROM counted
ORDER BY fingerprint
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
  tries = CASE WHEN held.closed_at IS NULL THEN held.tries ELSE 0 END,
  delivered = CASE WHEN held.closed_at IS NULL THEN held.delivered ELSE excluded.delivered END,
  trouble = CASE WHEN held.closed_at IS NULL THEN held.trouble END,
  wake_at = CASE
    WHEN held.closed_at IS NULL AND held.wake_at < excluded.wake_at THEN held.wake_at
    ELSE excluded.wake_at END,
  claimed_by = CASE WHEN held.closed_at IS NULL THEN held.claimed_by END,
  claimed_until = CASE WHEN held.closed_at IS NULL THEN held.claimed_until END,
  acknowledged_by = CASE WHEN held.closed_at IS NULL THEN held.acknowledged_by END,
  acknowledged_at = CASE WHEN held.closed_at IS NULL THEN held.acknowledged_at END,
  snoozed_until = CASE WHEN held.closed_at IS NULL THEN held.snoozed_until END,
  closed_at = NULL,
  closed_why = NULL
