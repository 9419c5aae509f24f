-- What is to be decided about for each of these schedules, behind the one whose tick waits the longest.
SELECT {arrival}
FROM unnest($1::text[]) AS due (name)
CROSS JOIN LATERAL (
  (
    SELECT * FROM warrener_arrivals
    WHERE schedule = due.name AND event IS NOT NULL AND nominal_at IS NOT NULL
    ORDER BY nominal_at
    LIMIT 1
  )
  UNION ALL
  (
    SELECT * FROM warrener_arrivals
    WHERE schedule = due.name AND event IS NOT NULL AND nominal_at IS NULL
    ORDER BY told_at, event_id
    LIMIT $2::bigint
  )
) AS arrival
