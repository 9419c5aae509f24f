-- Keep a message that cannot be understood; the same message parked again changes nothing.
INSERT INTO warrener_parked (
  parked_id, queue, reason, detail, content_type, body, parked_at
)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
