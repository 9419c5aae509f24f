-- A tick that is asked for after all: a new one, or one that was passed over and has no job.
INSERT INTO warrener_ticks (
  schedule, nominal_at, fate, due_at, decided_at, reason, job_id, fired_at, wake_at, request
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (schedule, nominal_at) DO UPDATE SET
  fate = excluded.fate,
  decided_at = excluded.decided_at,
  reason = excluded.reason,
  job_id = excluded.job_id,
  wake_at = excluded.wake_at,
  request = excluded.request
WHERE job_id IS NULL AND fate <> 'waiting'
