-- Schedules to look at, held until the transaction ends. SKIP LOCKED: what another caller holds is its own.
--
-- The state of the last job is there where the choice about overlap needs it: last_job_id is kept only then.
SELECT {schedule}, job.state, CASE WHEN schedule.waiting > 0 THEN (
  SELECT min(tick.nominal_at)
  FROM warrener_ticks AS tick
  WHERE tick.schedule = schedule.name AND tick.fate = 'waiting'
) END
FROM warrener_schedules AS schedule
LEFT JOIN warrener_jobs AS job ON job.job_id = schedule.last_job_id
WHERE schedule.wake_at <= $1::timestamptz
ORDER BY schedule.wake_at, schedule.name
LIMIT $2::bigint
FOR NO KEY UPDATE OF schedule SKIP LOCKED
