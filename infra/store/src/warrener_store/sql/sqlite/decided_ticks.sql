-- Which of these (schedule, nominal_at) are in the ledger, and as what.
SELECT tick.schedule, tick.nominal_at, tick.fate
FROM json_each(?1) AS told
JOIN warrener_ticks AS tick ON tick.schedule = told.value ->> 0 AND tick.nominal_at = told.value ->> 1
