-- These are not bound any more.
DELETE FROM warrener_bound AS held
USING unnest($1::text[], $2::text[]) AS told (exchange, key)
WHERE held.exchange = told.exchange AND held.key = told.key
