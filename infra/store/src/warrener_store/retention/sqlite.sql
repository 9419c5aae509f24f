-- name: prunable_jobs
-- Those of these jobs that are deletable, with the columns of their counts.
SELECT job.job_id, job.job_type, job.queue, job.state
FROM json_each($3) AS batch
JOIN warrener_jobs AS job ON job.job_id = batch.value
WHERE job.finished_at IS NOT NULL AND {prunable}

-- name: delete_job
-- Delete a job with all rows that refer to it by a foreign key. Run in the transaction that has found it deletable.
DELETE FROM warrener_jobs WHERE job_id = ?

-- name: runs_in_use
-- The jobs of a schedule that a later decision needs.
SELECT last_job_id AS job_id FROM warrener_schedules WHERE name = $1 AND last_job_id IS NOT NULL
UNION
SELECT job_id FROM (
  SELECT recent.job_id
  FROM (
    SELECT tick.job_id, tick.nominal_at
    FROM warrener_ticks AS tick
    WHERE tick.schedule = $1 AND tick.job_id IS NOT NULL AND EXISTS (SELECT 1 FROM warrener_schedules WHERE name = $1)
    ORDER BY tick.nominal_at DESC
    LIMIT {newest}
  ) AS recent
  JOIN warrener_jobs AS job ON job.job_id = recent.job_id
  WHERE job.state = 'succeeded'
  ORDER BY recent.nominal_at DESC
  LIMIT 1
)
UNION
SELECT job_id FROM (
  SELECT tick.job_id
  FROM warrener_schedule_watches AS watch
  JOIN warrener_ticks AS tick ON tick.schedule = watch.name
  WHERE watch.name = $1 AND tick.job_id IS NOT NULL AND tick.nominal_at >= coalesce(watch.last_success_tick, '')
  ORDER BY tick.nominal_at DESC
  LIMIT {newest}
)

-- name: delete_occurrences
-- Delete these occurrences of incidents.
DELETE FROM warrener_incident_occurrences
WHERE (fingerprint, occurrence) IN (
  SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each($1)
)
RETURNING 1

-- name: drop_counts
-- Delete the counts of these job types whose sum is zero.
DELETE FROM warrener_job_counts
WHERE job_type IN (SELECT value FROM json_each($1)) AND (
  SELECT sum(same.jobs)
  FROM warrener_job_counts AS same
  WHERE same.job_type = warrener_job_counts.job_type AND same.state = warrener_job_counts.state
) = 0
