-- name: claim_campaigns
-- Claim campaigns that are due: move their wake_at. SKIP LOCKED: rows that another caller is claiming belong to it.
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
RETURNING {campaign}, due.wake_at AS was_due_at

-- name: save_campaign
-- Write a campaign's progress if its version is the one that was decided on, and move its dead letters with it.
WITH held AS (
  UPDATE warrener_campaigns
  SET
    version = $2::integer,
    state = $3,
    why = $4,
    counts = $5,
    began_at = $6::timestamptz,
    since = $7,
    journal = $8,
    after_died_at = $9::timestamptz,
    after_job_id = $10::uuid,
    wake_at = $11::timestamptz,
    updated_at = $12::timestamptz,
    finished_at = $13::timestamptz
  WHERE campaign_id = $1::uuid AND version = $2::integer - 1
  RETURNING campaign_id
),
moved AS (
  UPDATE warrener_dead_letters AS letter
  SET
    state = told.state,
    campaign_id = told.campaign_id,
    redriven_as = told.redriven_as,
    redrives = told.redrives,
    asked_at = told.asked_at,
    note = told.note
  FROM unnest(
    $14::uuid[], $15::text[], $16::text[], $17::uuid[], $18::uuid[], $19::integer[], $20::timestamptz[], $21::text[]
  ) AS told (
    job_id, held, state, campaign_id, redriven_as, redrives, asked_at, note
  )
  CROSS JOIN held
  WHERE
    letter.job_id = told.job_id AND letter.state = told.held
    AND (letter.state IN ('open', 'ended', 'refused') OR letter.campaign_id = $1::uuid)
)
SELECT campaign_id FROM held
