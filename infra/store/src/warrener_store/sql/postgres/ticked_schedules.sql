-- The next names that the ledger has rows of: from one to the next by the primary key, past all their ticks.
WITH RECURSIVE named AS (
  (SELECT schedule, 1 AS place FROM warrener_ticks WHERE schedule > $1 ORDER BY schedule LIMIT 1)
  UNION ALL
  SELECT (
    SELECT tick.schedule FROM warrener_ticks AS tick WHERE tick.schedule > named.schedule ORDER BY tick.schedule LIMIT 1
  ), named.place + 1
  FROM named
  WHERE named.schedule IS NOT NULL AND named.place < $2::bigint
)
SELECT schedule FROM named WHERE schedule IS NOT NULL
