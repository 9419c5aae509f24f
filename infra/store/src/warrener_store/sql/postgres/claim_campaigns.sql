-- Claim campaigns that are due: move their wake_at. SKIP LOCKED: what another caller claims at this moment is its own.
WITH due AS (
  SELECT campaign_id, wake_at
  FROM warrener_campaigns
  WHERE wake_at <= $1::timestamptz
  ORDER BY wake_at, campaign_id
  LIMIT $3::bigint
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE warrener_campaigns AS campaign
SET wake_at = $2::timestamptz, version = campaign.version + 1
FROM due
WHERE campaign.campaign_id = due.campaign_id
RETURNING
  campaign.campaign_id, campaign.kind, campaign.told, campaign.asked_by, campaign.reason, campaign.asked_at,
  campaign.version, campaign.state, campaign.why, campaign.counts, campaign.began_at, campaign.since, campaign.journal,
  campaign.after_died_at, campaign.after_job_id, campaign.wake_at, campaign.updated_at, campaign.finished_at, due.wake_at AS was_due_at
