-- The id of the installation; the first one counts.
INSERT INTO warrener_installation (one, installation_id)
VALUES (1, ?)
ON CONFLICT (one) DO NOTHING
