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
