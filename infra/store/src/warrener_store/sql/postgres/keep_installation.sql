-- The id of the installation; the first one counts.
INSERT INTO warrener_installation (one, installation_id)
SELECT 1, told.installation_id FROM unnest($1::uuid[]) AS told (installation_id)
ON CONFLICT (one) DO NOTHING
