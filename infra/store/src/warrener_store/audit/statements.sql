-- name: record_action
-- Store that an action was called; a repeat changes nothing.
INSERT INTO warrener_audit ({audit_record})
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (record_id) DO NOTHING

-- name: complete_action
-- Store the end of an action, once.
UPDATE warrener_audit SET outcome = $2, sentence = $3, completed_at = $4
WHERE record_id = $1 AND completed_at IS NULL
RETURNING record_id
