-- name: put_redrive
-- Insert a redrive; an existing one stays as it is.
INSERT INTO warrener_redrives (
  redrive_id, kind, request, requested_by, reason, requested_at, version, state, stop_reason, counts, started_at, counts_at_start, journal,
  wake_at, updated_at, finished_at, after_died_at, after_job_id
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
ON CONFLICT DO NOTHING
RETURNING redrive_id
