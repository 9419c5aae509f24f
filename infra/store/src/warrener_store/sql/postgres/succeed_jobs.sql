-- End jobs by the success of their current attempt, and move the counts. What is alike in all rows stands in its array
-- once, and a result that is NULL in all of them not at all.
--
-- Looked up by key and written where they stand, as in save_jobs. The conditions are on what was found: on the job
-- itself, they would have a plan that was made while the table was empty read all that is in flight.
WITH changed AS (
  -- The version is compared again: a row that changed while it was waited for is left alone, and judged as it is then.
  -- Where it stands does not say so: PostgreSQL of before November 2025 does not look at the ctid again once it has
  -- waited. Versions only grow; "=" would do too, but by it the rows could be joined in a plan that reads all of them.
  UPDATE warrener_jobs AS job
  SET
    version = job.version + 1,
    state = 'succeeded',
    owner = coalesce(told.agent_id, ($3::text[])[1]),
    due_at = NULL,
    wake_at = NULL,
    lease_until = NULL,
    deadline_wake_at = NULL,
    finished_at = $7::timestamptz,
    updated_at = $7::timestamptz,
    result = CASE cardinality($4::text[]) WHEN 1 THEN ($4::text[])[1] ELSE told.result END,
    ran_from = coalesce(told.started_at, ($5::timestamptz[])[1]),
    ran_until = coalesce(told.finished_at, ($6::timestamptz[])[1])
  FROM unnest(
    $1::uuid[], $2::integer[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[]
  ) AS told (
    job_id, attempt, agent_id, result, started_at, finished_at
  )
  CROSS JOIN LATERAL (
    SELECT ctid AS place, version, state AS left_state, attempt FROM warrener_jobs WHERE job_id = told.job_id OFFSET 0
  ) AS found
  WHERE
    job.ctid = found.place
    AND job.version <= found.version
    AND found.attempt = coalesce(told.attempt, ($2::integer[])[1])
    AND found.left_state IN ({in_flight})
  RETURNING {succeeded}, found.left_state
),
counted AS (
  -- Groups first, so all jobs are locked before the first count is; and in one order.
  INSERT INTO warrener_job_counts AS held (job_type, state, slot, jobs)
  SELECT moved.job_type, moved.state, pg_backend_pid() % 16, sum(moved.jobs)
  FROM (
    SELECT job_type, left_state AS state, -1 AS jobs FROM changed
    UNION ALL
    SELECT job_type, 'succeeded', 1 AS jobs FROM changed
  ) AS moved
  GROUP BY moved.job_type, moved.state
  ORDER BY moved.job_type, moved.state
  ON CONFLICT (job_type, state, slot) DO UPDATE SET jobs = held.jobs + excluded.jobs
)
SELECT * FROM changed
