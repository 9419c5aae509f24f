-- The id of the installation.
SELECT installation_id FROM warrener_installation WHERE one = 1
