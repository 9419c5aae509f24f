-- The jobs of these schedules that a later decision asks for.
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
    AND tick.nominal_at >= coalesce(watch.success_tick, '-infinity')
  ORDER BY tick.nominal_at DESC
  LIMIT {newest}
) AS run
WHERE watch.name = ANY ($1::text[])
