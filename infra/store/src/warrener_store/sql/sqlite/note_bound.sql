-- This may be bound at the broker.
INSERT INTO warrener_bound (exchange, key) VALUES (?, ?) ON CONFLICT (exchange, key) DO NOTHING
