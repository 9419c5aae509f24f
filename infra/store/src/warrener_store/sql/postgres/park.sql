-- Keep messages that cannot be understood; the same message parked again is counted.
INSERT INTO warrener_parked (
  parked_id, queue, reason, detail, content_type, body, parked_at,
  exchange, routing_key, message_id, type, headers
)
SELECT DISTINCT ON (told.parked_id) told.*
FROM unnest(
  $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::timestamptz[],
  $8::text[], $9::text[], $10::text[], $11::text[], $12::text[]
) AS told (
  parked_id, queue, reason, detail, content_type, body, parked_at,
  exchange, routing_key, message_id, type, headers
)
ORDER BY told.parked_id
ON CONFLICT (parked_id) DO UPDATE SET times = warrener_parked.times + 1
