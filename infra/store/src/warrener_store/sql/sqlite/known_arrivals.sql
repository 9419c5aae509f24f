-- Which of these (schedule, event) are known.
SELECT arrival.schedule, arrival.event_id
FROM json_each(?1) AS told
JOIN warrener_arrivals AS arrival
  ON arrival.schedule = told.value ->> 0 AND arrival.event_id = told.value ->> 1
