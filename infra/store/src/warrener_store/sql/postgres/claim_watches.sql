-- Claim schedules that are watched, with the newest of their ticks since the success that is known of.
WITH due AS (
  SELECT name
  FROM warrener_schedule_watches
  WHERE look_at <= $1::timestamptz
  ORDER BY look_at, name
  LIMIT $3::bigint
  FOR NO KEY UPDATE SKIP LOCKED
), claimed AS (
  UPDATE warrener_schedule_watches AS watch
  SET look_at = $2::timestamptz
  FROM due
  WHERE watch.name = due.name
  RETURNING {watch}
)
SELECT {claimed}, schedule.paused, run.*
FROM claimed
JOIN warrener_schedules AS schedule ON schedule.name = claimed.name
LEFT JOIN LATERAL (
  SELECT tick.nominal_at, tick.decided_at, tick.fired_at, job.state, job.finished_at
  FROM warrener_ticks AS tick
  LEFT JOIN warrener_jobs AS job ON job.job_id = tick.job_id
  WHERE tick.schedule = claimed.name
    AND tick.job_id IS NOT NULL
    AND tick.nominal_at >= coalesce(claimed.success_tick, '-infinity')
  ORDER BY tick.nominal_at DESC
  LIMIT $4::bigint
) AS run ON true
ORDER BY claimed.name, run.nominal_at DESC
