-- Old ticks of these schedules, a portion of each; not the newest, nothing that waits or is unpublished.
SELECT {tick}
FROM unnest($1::text[]) AS told (schedule)
CROSS JOIN LATERAL (
  SELECT ticks.*
  FROM warrener_ticks AS ticks
  WHERE ticks.schedule = told.schedule
    AND ticks.nominal_at < least($2::timestamptz, (
      SELECT coalesce(min(newest.nominal_at), '-infinity')
      FROM (
        SELECT kept.nominal_at
        FROM warrener_ticks AS kept
        WHERE kept.schedule = told.schedule
        ORDER BY kept.nominal_at DESC
        LIMIT $3::bigint
      ) AS newest
    ))
    AND ticks.fate <> 'waiting'
    AND ticks.wake_at IS NULL
  ORDER BY ticks.nominal_at
  LIMIT $4::bigint
) AS tick
