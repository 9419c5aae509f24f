-- The newest success of a schedule that is watched.
UPDATE warrener_schedule_watches
SET success_tick = ?2, succeeded_at = ?3
WHERE name = ?1 AND (success_tick IS NULL OR success_tick < ?2)
