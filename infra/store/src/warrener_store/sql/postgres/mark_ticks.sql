-- The broker has the requests of these ticks; the first mark counts.
UPDATE warrener_ticks AS tick
SET fired_at = $3::timestamptz, wake_at = NULL, request = NULL
FROM unnest($1::text[], $2::timestamptz[]) AS told (schedule, nominal_at)
WHERE tick.schedule = told.schedule AND tick.nominal_at = told.nominal_at AND tick.request IS NOT NULL
