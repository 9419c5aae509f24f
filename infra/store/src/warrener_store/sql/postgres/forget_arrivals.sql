-- Nobody will repeat these any more.
DELETE FROM warrener_arrivals WHERE event IS NULL AND heard_at < $1::timestamptz
