-- What has become of arrivals. One whose tick waits stays open until that is fired.
UPDATE warrener_arrivals AS arrival
SET nominal_at = told.nominal_at, event = CASE WHEN told.nominal_at IS NOT NULL THEN arrival.event END
FROM unnest($1::text[], $2::uuid[], $3::timestamptz[]) AS told (schedule, event_id, nominal_at)
WHERE arrival.schedule = told.schedule AND arrival.event_id = told.event_id
