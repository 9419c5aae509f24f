-- What may be bound at the broker.
SELECT exchange, key FROM warrener_bound
