-- The messages parked last, without the tries of messages that may crash their readers.
SELECT
  parked_id, queue, reason, detail, content_type, body, parked_at,
  exchange, routing_key, message_id, type, headers, times
FROM warrener_parked
WHERE reason <> 'tried_alone'
ORDER BY parked_at DESC, parked_id DESC
LIMIT $1
