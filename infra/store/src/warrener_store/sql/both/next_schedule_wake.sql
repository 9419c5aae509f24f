-- When a scheduler must look next; each of the two reads the first entry of its index.
SELECT min(wake_at) FROM (
  SELECT min(wake_at) AS wake_at FROM warrener_schedules WHERE wake_at IS NOT NULL
  UNION ALL
  SELECT min(wake_at) FROM warrener_ticks WHERE wake_at IS NOT NULL
) AS wakes
