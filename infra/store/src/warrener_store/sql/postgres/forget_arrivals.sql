-- What nobody will repeat any more, and what was left of schedules that wait for nothing now.
DELETE FROM warrener_arrivals
WHERE heard_at < $1::timestamptz AND (event IS NULL OR schedule NOT IN (
  SELECT name
  FROM warrener_schedules
  WHERE strpos(asked, '"rule":{"kind":"event"') > 0 OR strpos(asked, '"rule":{"kind":"after"') > 0
))
