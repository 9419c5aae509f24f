-- Schedules that wait for something, by their index. What else holds such words is left out by the caller.
SELECT {schedule}
FROM warrener_schedules AS schedule
WHERE (strpos(schedule.asked, '"rule":{"kind":"event"') > 0
  OR strpos(schedule.asked, '"rule":{"kind":"after"') > 0)
ORDER BY schedule.name
