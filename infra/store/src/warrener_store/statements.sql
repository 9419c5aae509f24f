-- name: schema_version
-- The revision of the tables.
SELECT version_num FROM warrener_schema

-- name: installation
-- The id of the installation.
SELECT installation_id FROM warrener_installation WHERE one = 1

-- name: keep_installation
-- Store the id of the installation; the first one counts.
INSERT INTO warrener_installation (one, installation_id)
SELECT 1, batch.installation_id FROM {batch installation_id uuid} AS batch WHERE true
ON CONFLICT (one) DO NOTHING

-- name: installation_secret
-- The secret of the installation, which is stored if there is none: the first one counts.
INSERT INTO warrener_installation AS held (one, installation_id, secret)
VALUES (1, $1, $2)
ON CONFLICT (one) DO UPDATE SET secret = coalesce(held.secret, excluded.secret)
RETURNING secret

-- name: claim_duty
-- Claim a duty, or extend the caller's own claim; no row if another claim is in force.
INSERT INTO warrener_duties AS held (duty, holder, until)
VALUES ($1, $2, $4)
ON CONFLICT (duty) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE held.holder = excluded.holder OR held.until <= $3
RETURNING duty

-- name: duties
-- The duties that are claimed at a moment, with their holders.
SELECT duty, holder FROM warrener_duties WHERE until > $1 ORDER BY duty
