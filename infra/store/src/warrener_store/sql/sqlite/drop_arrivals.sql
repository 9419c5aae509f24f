-- What has happened for these and is open. What is not stays: a repeat of it is still one.
DELETE FROM warrener_arrivals WHERE schedule IN (SELECT value FROM json_each(?1)) AND event IS NOT NULL
