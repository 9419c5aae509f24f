-- Schedules to look at, each with the version of its row, by which advance_schedules sees whether it has changed since.
--
-- The state of the last job is there where the choice about overlap needs it: last_job_id is kept only then. So is
-- the last success where the arguments name it.
SELECT {schedule}, job.state, CASE WHEN schedule.waiting > 0 THEN (
  SELECT min(tick.nominal_at)
  FROM warrener_ticks AS tick
  WHERE tick.schedule = schedule.name AND tick.fate = 'waiting'
) END, CASE WHEN schedule.asked LIKE '%tick.previous_success%' THEN (
  SELECT max(recent.nominal_at)
  FROM (
    SELECT tick.nominal_at, tick.job_id
    FROM warrener_ticks AS tick
    WHERE tick.schedule = schedule.name AND tick.job_id IS NOT NULL
    ORDER BY tick.nominal_at DESC
    LIMIT {newest}
  ) AS recent
  JOIN warrener_jobs AS done ON done.job_id = recent.job_id
  WHERE done.state = 'succeeded'
) END, schedule.xmin
FROM warrener_schedules AS schedule
LEFT JOIN warrener_jobs AS job ON job.job_id = schedule.last_job_id
WHERE schedule.wake_at <= $1::timestamptz
ORDER BY schedule.wake_at, schedule.name
LIMIT $2::bigint
