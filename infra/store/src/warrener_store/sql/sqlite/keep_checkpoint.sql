-- Keep the newest checkpoint of a job.
INSERT INTO warrener_checkpoints (job_id, attempt, number, state, saved_at)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (job_id) DO UPDATE SET
  attempt = excluded.attempt,
  number = excluded.number,
  state = excluded.state,
  saved_at = excluded.saved_at
WHERE number < excluded.number
