-- Ticks of removed schedules that wait: nobody will ask for them.
UPDATE warrener_ticks
SET fate = 'skipped', reason = $2, decided_at = $3::timestamptz
WHERE schedule = ANY($1::text[]) AND fate = 'waiting'
