-- Keep a dead letter; one that is kept stays as it is.
INSERT INTO warrener_dead_letters (
  job_id, job_type, attempts, reason, error, died_at, fingerprint
)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
