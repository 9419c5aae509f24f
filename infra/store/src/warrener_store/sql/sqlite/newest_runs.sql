-- The newest ticks of a schedule with the ends of their jobs, since a nominal time.
SELECT tick.nominal_at, tick.decided_at, tick.fired_at, job.state, job.finished_at
FROM warrener_ticks AS tick
LEFT JOIN warrener_jobs AS job ON job.job_id = tick.job_id
WHERE tick.schedule = ?1 AND tick.job_id IS NOT NULL AND tick.nominal_at >= coalesce(?2, '')
ORDER BY tick.nominal_at DESC
LIMIT ?3
