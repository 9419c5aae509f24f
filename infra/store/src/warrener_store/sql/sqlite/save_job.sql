-- Write what has become of one job. Run in the transaction that has found the job saveable.
UPDATE warrener_jobs
SET
  version = ?1,
  state = ?2,
  attempt = ?3,
  failures = ?4,
  losses = ?5,
  owner = ?6,
  watchers = ?7,
  cancel_reason = ?8,
  due_at = ?9,
  wake_at = ?10,
  dispatched_at = ?11,
  started_at = ?12,
  lease_until = ?13,
  finished_at = ?14,
  progress = ?15,
  progress_note = ?16,
  result = ?17,
  error = ?18,
  updated_at = ?19,
  ran_from = ?20,
  ran_until = ?21,
  deadline_wake_at = CASE WHEN ?14 IS NULL THEN deadline_wake_at END
WHERE job_id = ?22
