-- A parked message that was sent in again or dropped; one that was parked once more since stays.
DELETE FROM warrener_parked WHERE parked_id = ? AND times = ? AND parked_at = ?
