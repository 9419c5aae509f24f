-- Old ticks of a schedule, a portion; not the newest, nothing that waits or is unpublished.
SELECT {tick}
FROM warrener_ticks AS tick
WHERE tick.schedule = ?1
  AND tick.nominal_at < min(?2, (
    SELECT coalesce(min(newest.nominal_at), '')
    FROM (
      SELECT kept.nominal_at
      FROM warrener_ticks AS kept
      WHERE kept.schedule = ?1
      ORDER BY kept.nominal_at DESC
      LIMIT ?3
    ) AS newest
  ))
  AND tick.fate <> 'waiting'
  AND tick.wake_at IS NULL
ORDER BY tick.nominal_at
LIMIT ?4
