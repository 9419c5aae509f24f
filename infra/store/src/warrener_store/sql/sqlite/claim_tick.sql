-- Claim a tick that was found not to be published.
UPDATE warrener_ticks SET wake_at = ?3 WHERE schedule = ?1 AND nominal_at = ?2
