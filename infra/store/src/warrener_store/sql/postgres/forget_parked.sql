-- Parked messages that were sent in again or dropped; one that was parked once more since stays.
DELETE FROM warrener_parked AS parked
USING unnest($1::text[], $2::integer[], $3::timestamptz[]) AS told (parked_id, times, parked_at)
WHERE parked.parked_id = told.parked_id AND parked.times = told.times AND parked.parked_at = told.parked_at
