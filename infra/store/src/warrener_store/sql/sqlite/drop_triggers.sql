-- These wait for nothing any more.
DELETE FROM warrener_triggers WHERE schedule IN (SELECT value FROM json_each(?1))
