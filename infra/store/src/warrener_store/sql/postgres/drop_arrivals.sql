-- What has happened for these and is open. What is not stays: a repeat of it is still one.
DELETE FROM warrener_arrivals WHERE schedule = ANY($1::text[]) AND event IS NOT NULL
