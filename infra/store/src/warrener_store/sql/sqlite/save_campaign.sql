-- Write how far a campaign is, where its version is still the one that was decided on.
UPDATE warrener_campaigns
SET
  version = ?1,
  state = ?2,
  why = ?3,
  counts = ?4,
  began_at = ?5,
  since = ?6,
  journal = ?7,
  after_died_at = ?8,
  after_job_id = ?9,
  wake_at = ?10,
  updated_at = ?11,
  finished_at = ?12
WHERE campaign_id = ?13 AND version = ?1 - 1
RETURNING campaign_id
