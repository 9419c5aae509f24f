-- Keep a tick. What was decided stays; one that was waiting is decided once more.
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
WHERE fate = 'waiting' AND excluded.fate <> 'waiting'
