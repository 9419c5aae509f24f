-- Keep a message that cannot be understood; the same message parked again is counted.
INSERT INTO warrener_parked (
  parked_id, queue, reason, detail, content_type, body, parked_at,
  exchange, routing_key, message_id, type, headers
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (parked_id) DO UPDATE SET times = times + 1
