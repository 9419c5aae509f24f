-- These may be bound at the broker.
INSERT INTO warrener_bound (exchange, key)
SELECT * FROM unnest($1::text[], $2::text[]) AS told (exchange, key)
ORDER BY told.exchange, told.key
ON CONFLICT (exchange, key) DO NOTHING
