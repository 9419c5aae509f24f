-- How far schedules have come. The caller holds them.
UPDATE warrener_schedules AS schedule
SET zone_version = told.zone_version,
  next_at = told.next_at,
  wake_at = told.wake_at,
  last_at = told.last_at,
  runs = told.runs,
  waiting = told.waiting,
  last_job_id = told.last_job_id,
  last_fired_at = told.last_fired_at
FROM unnest(
  $1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::integer[], $7::integer[],
  $8::uuid[], $9::timestamptz[]
) AS told (name, zone_version, next_at, wake_at, last_at, runs, waiting, last_job_id, last_fired_at)
WHERE schedule.name = told.name
