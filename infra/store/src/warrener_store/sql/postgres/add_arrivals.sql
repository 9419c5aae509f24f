-- What has happened, once for each schedule that waits for it, and the schedules woken.
--
-- They are locked first, in one order: who decides about one of them ends before, or sees what is added here.
WITH held AS (
  SELECT name FROM warrener_schedules WHERE name = ANY($1::text[]) ORDER BY name FOR NO KEY UPDATE
),
added AS (
  INSERT INTO warrener_arrivals (schedule, event_id, told_at, heard_at, upstream, nominal_at, event)
  SELECT *
  FROM unnest(
    $1::text[], $2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::timestamptz[], $7::text[]
  ) AS told (schedule, event_id, told_at, heard_at, upstream, nominal_at, event)
  WHERE told.schedule IN (SELECT name FROM held)
  ORDER BY told.schedule, told.event_id
  ON CONFLICT (schedule, event_id) DO NOTHING
  RETURNING schedule, heard_at
)
UPDATE warrener_schedules AS schedule
SET wake_at = least(schedule.wake_at, woken.heard_at)
FROM (SELECT added.schedule, min(added.heard_at) AS heard_at FROM added GROUP BY added.schedule) AS woken
WHERE schedule.name = woken.schedule
