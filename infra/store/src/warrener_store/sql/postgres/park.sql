-- Keep messages that cannot be understood; the same message parked again changes nothing.
INSERT INTO warrener_parked (
  parked_id, queue, reason, detail, content_type, body, parked_at
)
SELECT *
FROM unnest(
  $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::timestamptz[]
) AS told (
  parked_id, queue, reason, detail, content_type, body, parked_at
)
ORDER BY told.parked_id
ON CONFLICT (parked_id) DO NOTHING
