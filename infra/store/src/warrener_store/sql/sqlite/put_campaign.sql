-- Insert a campaign; one that is there stays as it is.
INSERT INTO warrener_campaigns (
  campaign_id, kind, told, asked_by, reason, asked_at, version, state, why, counts, began_at, since, journal,
  after_died_at, after_job_id, wake_at, updated_at, finished_at
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
RETURNING campaign_id
