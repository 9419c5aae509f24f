-- Campaigns that are due.
SELECT
  campaign_id, kind, told, asked_by, reason, asked_at, version, state, why, counts, began_at, since, journal,
  after_died_at, after_job_id, wake_at, updated_at, finished_at
FROM warrener_campaigns
WHERE wake_at <= ?1
ORDER BY wake_at, campaign_id
LIMIT ?2
