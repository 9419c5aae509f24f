-- Parked messages that were sent in again or dropped; one that was parked once more since stays.
DELETE FROM warrener_parked AS parked
USING unnest($1::text[], $2::integer[]) AS told (parked_id, times)
WHERE parked.parked_id = told.parked_id AND parked.times = told.times
