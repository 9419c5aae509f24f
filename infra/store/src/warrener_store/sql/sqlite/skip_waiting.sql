-- Ticks of removed schedules that wait: nobody will ask for them.
UPDATE warrener_ticks
SET fate = 'skipped', reason = ?2, decided_at = ?3
WHERE schedule IN (SELECT value FROM json_each(?1)) AND fate = 'waiting'
