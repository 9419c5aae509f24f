-- Delete the jobs of these that may go, with all that refers to them by a foreign key, and move the counts.
--
-- SKIP LOCKED: whoever holds a row keeps it, and nothing is waited for. Dead letters are locked first, as a redrive takes
-- them without their job; what it has taken meanwhile is seen by then.
WITH letters AS MATERIALIZED (
  SELECT letter.job_id
  FROM warrener_dead_letters AS letter
  WHERE letter.job_id = ANY ($3::uuid[]) AND letter.state NOT IN ('taken', 'asked')
  ORDER BY letter.job_id
  FOR UPDATE SKIP LOCKED
),
old AS (
  SELECT job.job_id
  FROM unnest($3::uuid[]) AS told (job_id)
  JOIN warrener_jobs AS job ON job.job_id = ANY (ARRAY[told.job_id])
  WHERE job.finished_at IS NOT NULL
    AND (job.state <> 'dead' OR job.job_id IN (SELECT letters.job_id FROM letters) OR NOT EXISTS (
      SELECT 1 FROM warrener_dead_letters AS letter WHERE letter.job_id = job.job_id LIMIT 1 OFFSET 0
    ))
    AND {prunable}
  ORDER BY job.job_id
  FOR UPDATE OF job SKIP LOCKED
),
gone AS (
  DELETE FROM warrener_jobs AS job
  USING old
  WHERE job.job_id = ANY (ARRAY[old.job_id])
  RETURNING job.job_id, job.job_type, job.state
),
counted AS (
  INSERT INTO warrener_job_counts AS held (job_type, state, slot, jobs)
  SELECT job_type, state, pg_backend_pid() % 16, -count(*)
  FROM gone
  GROUP BY job_type, state
  ORDER BY job_type, state
  ON CONFLICT (job_type, state, slot) DO UPDATE SET jobs = held.jobs + excluded.jobs
)
SELECT job_id FROM gone
