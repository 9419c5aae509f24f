-- Keep an attempt that is over; one that is kept stays as it is.
INSERT INTO warrener_attempts (
  job_id, attempt, ended_as, agent_id, dispatched_at, started_at, finished_at, error, verdict
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
