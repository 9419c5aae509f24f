-- Delete these ticks; not what waits or is unpublished by now.
DELETE FROM warrener_ticks
WHERE (schedule, nominal_at) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?1))
  AND fate <> 'waiting'
  AND wake_at IS NULL
RETURNING 1
