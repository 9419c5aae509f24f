-- The next names that the ledger has rows of: from one to the next by the primary key, past all their ticks.
WITH RECURSIVE named (schedule, place) AS (
  SELECT min(schedule), 1 FROM warrener_ticks WHERE schedule > ?1
  UNION ALL
  SELECT (SELECT min(tick.schedule) FROM warrener_ticks AS tick WHERE tick.schedule > named.schedule), named.place + 1
  FROM named
  WHERE named.schedule IS NOT NULL AND named.place < ?2
)
SELECT schedule FROM named WHERE schedule IS NOT NULL
