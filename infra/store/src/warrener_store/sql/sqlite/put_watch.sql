-- What is expected of a schedule; how far it has come stays.
INSERT INTO warrener_schedule_watches (name, pause_after, success_within, since, look_at)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET
  pause_after = excluded.pause_after,
  success_within = excluded.success_within,
  look_at = min(look_at, excluded.look_at)
