-- Look at a schedule then, or earlier.
UPDATE warrener_schedules SET wake_at = min(coalesce(wake_at, ?2), ?2) WHERE name = ?1
