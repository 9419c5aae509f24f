-- Keep the newest checkpoint of each job.
INSERT INTO warrener_checkpoints AS held (job_id, attempt, number, state, saved_at)
SELECT * FROM unnest($1::uuid[], $2::integer[], $3::integer[], $4::text[], $5::timestamptz[])
  AS told (job_id, attempt, number, state, saved_at)
ON CONFLICT (job_id) DO UPDATE SET
  attempt = excluded.attempt,
  number = excluded.number,
  state = excluded.state,
  saved_at = excluded.saved_at
WHERE held.number < excluded.number
