-- Insert a schedule, or replace what was asked for. An older word does not replace a newer one, and one that says
-- the same changes nothing: a file of schedules may be applied again and again.
-- Where ticks wait it is looked at now: the new rule may not be due for a year, or never again.
INSERT INTO warrener_schedules (
  name, asked, put_at, zone_version, paused, next_at, wake_at, last_at, runs, waiting, last_job_id, last_fired_at,
  paused_why
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET
  asked = excluded.asked,
  put_at = excluded.put_at,
  zone_version = excluded.zone_version,
  next_at = excluded.next_at,
  wake_at = CASE WHEN warrener_schedules.waiting > 0 THEN excluded.put_at ELSE excluded.wake_at END
WHERE put_at <= excluded.put_at AND asked <> excluded.asked
