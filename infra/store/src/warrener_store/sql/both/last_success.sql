-- The newest nominal time whose job has succeeded, of the last ones.
SELECT max(recent.nominal_at)
FROM (
  SELECT tick.nominal_at, tick.job_id
  FROM warrener_ticks AS tick
  WHERE tick.schedule = $1 AND tick.job_id IS NOT NULL
  ORDER BY tick.nominal_at DESC
  LIMIT {newest}
) AS recent
JOIN warrener_jobs AS job ON job.job_id = recent.job_id
WHERE job.state = 'succeeded'
