-- Insert schedules, or replace what was asked for. An older word does not replace a newer one, and one that says
-- the same changes nothing: a file of schedules may be applied again and again.
-- Where ticks wait it is looked at now: the new rule may not be due for a year, or never again.
INSERT INTO warrener_schedules AS held (
  name, asked, put_at, zone_version, paused, next_at, wake_at, last_at, runs, waiting, last_job_id, last_fired_at,
  paused_why
)
SELECT *
FROM unnest(
  $1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::boolean[], $6::timestamptz[], $7::timestamptz[],
  $8::timestamptz[], $9::integer[], $10::integer[], $11::uuid[], $12::timestamptz[], $13::text[]
) AS told (
  name, asked, put_at, zone_version, paused, next_at, wake_at, last_at, runs, waiting, last_job_id, last_fired_at,
  paused_why
)
ORDER BY told.name
ON CONFLICT (name) DO UPDATE SET
  asked = excluded.asked,
  put_at = excluded.put_at,
  zone_version = excluded.zone_version,
  next_at = excluded.next_at,
  wake_at = CASE WHEN held.waiting > 0 THEN excluded.put_at ELSE excluded.wake_at END
WHERE held.put_at <= excluded.put_at AND held.asked <> excluded.asked
RETURNING held.name
