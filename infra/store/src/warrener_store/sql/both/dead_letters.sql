-- The newest dead letters.
SELECT
  job_id, job_type, attempts, reason, error, died_at, fingerprint,
  state, campaign_id, redriven_as, redrives, asked_at, note
FROM warrener_dead_letters
ORDER BY died_at DESC, job_id DESC
LIMIT $1
