-- What has become of an arrival. One whose tick waits stays open until that is fired.
UPDATE warrener_arrivals SET nominal_at = ?3, event = CASE WHEN ?3 IS NOT NULL THEN event END
WHERE schedule = ?1 AND event_id = ?2
