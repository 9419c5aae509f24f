-- How far a schedule has come.
UPDATE warrener_schedules
SET zone_version = ?2,
  next_at = ?3,
  wake_at = ?4,
  last_at = ?5,
  runs = ?6,
  waiting = ?7,
  last_job_id = ?8,
  last_fired_at = ?9
WHERE name = ?1
