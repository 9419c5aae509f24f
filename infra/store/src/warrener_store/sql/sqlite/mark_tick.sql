-- The broker has the request of this tick; the first mark counts.
UPDATE warrener_ticks SET fired_at = ?3, wake_at = NULL, request = NULL
WHERE schedule = ?1 AND nominal_at = ?2 AND request IS NOT NULL
