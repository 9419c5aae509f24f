-- Pause or resume. A paused schedule goes on ticking: each tick of the pause stands in the ledger as skipped.
UPDATE warrener_schedules SET paused = ?2, paused_why = ?3 WHERE name IN (SELECT value FROM json_each(?1))
