-- The jobs of a schedule that a later decision asks for.
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
  WHERE watch.name = $1 AND tick.job_id IS NOT NULL AND tick.nominal_at >= coalesce(watch.success_tick, '')
  ORDER BY tick.nominal_at DESC
  LIMIT {newest}
)
