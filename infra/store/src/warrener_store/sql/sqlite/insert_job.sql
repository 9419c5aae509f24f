-- Insert one job that is new. Run for a whole batch inside one transaction: SQLite is called, not asked over a
-- network, so a statement prepared once and run for each row is its fastest batch.
INSERT INTO warrener_jobs (
  job_id, job_type, queue, arguments, guarantee, policy, source, idempotency_key, parent_id, traceparent,
  tracestate, requested_at, accepted_at, deadline_at, fingerprint, version, state, attempt, failures, losses,
  owner, watchers, cancel_reason, due_at, wake_at, dispatched_at, started_at, lease_until, finished_at,
  progress, progress_note, result, error, updated_at, deadline_wake_at
)
VALUES (
  ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,
  ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34,
  CASE WHEN ?29 IS NULL THEN ?14 END
)
