-- Claim campaigns that were found due: move their wake_at. There is one writer at a time, so no two claim the same.
UPDATE warrener_campaigns
SET wake_at = ?2, version = version + 1
WHERE campaign_id IN (SELECT value FROM json_each(?1))
