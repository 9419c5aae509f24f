-- Delete these ticks; not what waits or is unpublished by now, nor what another caller holds.
WITH old AS (
  SELECT tick.schedule, tick.nominal_at
  FROM unnest($1::text[], $2::timestamptz[]) AS told (schedule, nominal_at)
  CROSS JOIN LATERAL (
    SELECT held.schedule, held.nominal_at
    FROM warrener_ticks AS held
    WHERE held.schedule = told.schedule AND held.nominal_at = told.nominal_at
      AND held.fate <> 'waiting' AND held.wake_at IS NULL
    FOR UPDATE SKIP LOCKED
  ) AS tick
)
DELETE FROM warrener_ticks AS gone
USING old
WHERE gone.schedule = old.schedule AND gone.nominal_at = old.nominal_at
RETURNING 1
