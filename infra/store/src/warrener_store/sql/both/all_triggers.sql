-- Everything that schedules wait for. There are few of them, however many schedules there are.
SELECT listed.schedule, listed.bindings, {schedule}
FROM warrener_triggers AS listed
LEFT JOIN warrener_schedules AS schedule ON schedule.name = listed.schedule
ORDER BY listed.schedule
