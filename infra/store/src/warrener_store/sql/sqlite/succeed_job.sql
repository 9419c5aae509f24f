-- End a job by the success of its current attempt. Run in the transaction that has found it in flight.
UPDATE warrener_jobs
SET
  version = version + 1,
  state = 'succeeded',
  owner = ?1,
  due_at = NULL,
  wake_at = NULL,
  lease_until = NULL,
  deadline_wake_at = NULL,
  finished_at = ?5,
  updated_at = ?5,
  result = ?2,
  ran_from = ?3,
  ran_until = ?4
WHERE job_id = ?6
