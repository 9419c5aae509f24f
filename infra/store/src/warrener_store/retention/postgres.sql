-- name: delete_jobs
-- Delete those of these jobs that are deletable, with all rows that refer to them by a foreign key, and move the
-- counts.
--
-- SKIP LOCKED: rows that other callers hold stay, and nothing waits. Dead letters are locked first, as a redrive
-- claims them without their job; a claim made meanwhile is seen by then.
WITH dead_letters AS MATERIALIZED (
  SELECT dead_letter.job_id
  FROM warrener_dead_letters AS dead_letter
  WHERE dead_letter.job_id = ANY ($3::uuid[]) AND dead_letter.state NOT IN ('claimed', 'redriven')
  ORDER BY dead_letter.job_id
  FOR UPDATE SKIP LOCKED
),
old AS (
  SELECT job.job_id
  FROM unnest($3::uuid[]) AS batch (job_id)
  JOIN warrener_jobs AS job ON job.job_id = ANY (ARRAY[batch.job_id])
  WHERE job.finished_at IS NOT NULL
    AND (job.state <> 'dead' OR job.job_id IN (SELECT dead_letters.job_id FROM dead_letters) OR NOT EXISTS (
      SELECT 1 FROM warrener_dead_letters AS dead_letter WHERE dead_letter.job_id = job.job_id LIMIT 1 OFFSET 0
    ))
    AND {prunable}
  ORDER BY job.job_id
  FOR UPDATE OF job SKIP LOCKED
),
gone AS (
  DELETE FROM warrener_jobs AS job
  USING old
  WHERE job.job_id = ANY (ARRAY[old.job_id])
  RETURNING job.job_id, job.job_type, job.queue, job.state
),
counted AS (
  INSERT INTO warrener_job_counts AS held (job_type, queue, state, slot, jobs)
  SELECT job_type, queue, state, pg_backend_pid() % 16, -count(*)
  FROM gone
  GROUP BY job_type, queue, state
  ORDER BY job_type, queue, state
  ON CONFLICT (job_type, queue, state, slot) DO UPDATE SET jobs = held.jobs + excluded.jobs
)
SELECT job_id FROM gone

-- name: runs_in_use
-- The jobs of these schedules that a later decision needs.
SELECT schedule.last_job_id AS job_id
FROM warrener_schedules AS schedule
WHERE schedule.name = ANY ($1::text[]) AND schedule.last_job_id IS NOT NULL
UNION
SELECT success.job_id
FROM warrener_schedules AS schedule
CROSS JOIN LATERAL (
  SELECT recent.job_id
  FROM (
    SELECT tick.job_id, tick.nominal_at
    FROM warrener_ticks AS tick
    WHERE tick.schedule = schedule.name AND tick.job_id IS NOT NULL
    ORDER BY tick.nominal_at DESC
    LIMIT {newest}
  ) AS recent
  JOIN warrener_jobs AS job ON job.job_id = ANY (ARRAY[recent.job_id])
  WHERE job.state = 'succeeded'
  ORDER BY recent.nominal_at DESC
  LIMIT 1
) AS success
WHERE schedule.name = ANY ($1::text[])
UNION
SELECT run.job_id
FROM warrener_schedule_watches AS watch
CROSS JOIN LATERAL (
  SELECT tick.job_id
  FROM warrener_ticks AS tick
  WHERE tick.schedule = watch.name
    AND tick.job_id IS NOT NULL
    AND tick.nominal_at >= coalesce(watch.last_success_tick, '-infinity')
  ORDER BY tick.nominal_at DESC
  LIMIT {newest}
) AS run
WHERE watch.name = ANY ($1::text[])

-- name: delete_occurrences
-- Delete these occurrences of incidents; not those that another caller holds.
DELETE FROM warrener_incident_occurrences
WHERE ctid = ANY (ARRAY(
  SELECT entry.ctid
  FROM unnest($1::text[], $2::text[]) AS batch (fingerprint, occurrence)
  CROSS JOIN LATERAL (
    SELECT held.ctid
    FROM warrener_incident_occurrences AS held
    WHERE held.fingerprint = batch.fingerprint AND held.occurrence = batch.occurrence
    FOR UPDATE SKIP LOCKED
  ) AS entry
))
RETURNING 1

-- name: drop_counts
-- Delete the counts of these job types whose sum is zero. The rows are locked before they are summed, so counts
-- written meanwhile are in the sum.
WITH held AS MATERIALIZED (
  SELECT job_type, queue, state, slot, jobs
  FROM warrener_job_counts
  WHERE job_type = ANY ($1::text[])
  ORDER BY job_type, queue, state
  FOR UPDATE
),
nothing AS (
  SELECT job_type, state FROM held GROUP BY job_type, state HAVING sum(jobs) = 0
)
DELETE FROM warrener_job_counts AS gone
USING held
JOIN nothing ON nothing.job_type = held.job_type AND nothing.state = held.state
WHERE
  gone.job_type = held.job_type AND gone.queue = held.queue AND gone.state = held.state AND gone.slot = held.slot
