-- Move a letter from the state in which it was found, unless another campaign has it.
UPDATE warrener_dead_letters
SET
  state = ?3,
  campaign_id = ?4,
  redriven_as = ?5,
  redrives = ?6,
  asked_at = ?7,
  note = ?8
WHERE
  job_id = ?1 AND state = ?2
  AND (state IN ('open', 'ended', 'refused') OR campaign_id = ?9)
