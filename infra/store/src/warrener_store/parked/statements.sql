-- name: park
-- Store messages that a consumer could not process; the same message parked again is counted.
INSERT INTO warrener_parked AS held (
  parked_id, queue, reason, detail, content_type, body, parked_at,
  exchange, routing_key, message_id, type, headers
)
SELECT *
FROM {batch parked_id text, queue text, reason text, detail text, content_type text, body bytea, parked_at timestamptz,
  exchange text, routing_key text, message_id text, type text, headers text} AS batch
WHERE true
ORDER BY batch.parked_id
ON CONFLICT (parked_id) DO UPDATE SET times = held.times + 1

-- name: forget_parked
-- Delete parked messages that were published again or dropped; one that was parked once more since stays.
DELETE FROM warrener_parked
WHERE (parked_id, times, parked_at) IN (
  SELECT batch.parked_id, batch.times, batch.parked_at
  FROM {batch parked_id text, times integer, parked_at timestamptz} AS batch
)
