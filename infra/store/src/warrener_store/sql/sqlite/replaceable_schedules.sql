-- Which of these (name, asked, put_at) will change something when they are put.
SELECT told.value ->> 0
FROM json_each(?1) AS told
LEFT JOIN warrener_schedules AS held ON held.name = told.value ->> 0
WHERE held.name IS NULL OR (held.put_at <= told.value ->> 2 AND held.asked <> told.value ->> 1)
