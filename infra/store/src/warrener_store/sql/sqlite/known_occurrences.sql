-- Which of these pairs of fingerprint and occurrence are there, by their places in the array.
SELECT told.key
FROM json_each(?1) AS told
JOIN warrener_case_entries AS entry
  ON entry.fingerprint = json_extract(told.value, '$[0]') AND entry.occurrence = json_extract(told.value, '$[1]')
