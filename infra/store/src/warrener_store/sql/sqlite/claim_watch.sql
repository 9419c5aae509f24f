-- Claim a schedule that is watched.
UPDATE warrener_schedule_watches SET look_at = ?2 WHERE name = ?1
