-- What is expected of schedules; how far it has come stays. Of those that are over nothing is expected any more.
WITH over AS (
  DELETE FROM warrener_schedule_watches WHERE name = ANY($6::text[])
)
INSERT INTO warrener_schedule_watches AS held (name, pause_after, success_within, since, look_at)
SELECT *
FROM unnest($1::text[], $2::integer[], $3::double precision[], $4::timestamptz[], $5::timestamptz[])
  AS told (name, pause_after, success_within, since, look_at)
ORDER BY told.name
ON CONFLICT (name) DO UPDATE SET
  pause_after = excluded.pause_after,
  success_within = excluded.success_within,
  look_at = least(held.look_at, excluded.look_at)
