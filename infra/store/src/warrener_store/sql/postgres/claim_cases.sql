-- Claim cases that are due. SKIP LOCKED: what another caller claims at this moment is its own.
WITH due AS (
  SELECT fingerprint, wake_at
  FROM warrener_cases
  WHERE wake_at <= $1::timestamptz AND (claimed_until IS NULL OR claimed_until <= $1::timestamptz)
  ORDER BY wake_at, fingerprint
  LIMIT $4::bigint
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE warrener_cases AS cases
SET claimed_until = $2::timestamptz, claimed_by = $3::text
FROM due
WHERE cases.fingerprint = due.fingerprint
RETURNING {case}
