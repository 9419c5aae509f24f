-- Wake schedules that were planned by another time zone database.
UPDATE warrener_schedules SET wake_at = $2::timestamptz WHERE zone_version <> $1 AND wake_at > $2::timestamptz
