-- name: open_session
-- Store a session.
INSERT INTO warrener_sessions ({session}) VALUES ($1, $2, $3, $4, $5, $6, $7)

-- name: delete_expired_sessions
-- Delete sessions that had expired at a moment: few, since each sign-in deletes them.
DELETE FROM warrener_sessions WHERE expires_at <= $1

-- name: session
-- The session of a key.
SELECT {session} FROM warrener_sessions WHERE session_key = $1

-- name: end_session
-- Delete a session.
DELETE FROM warrener_sessions WHERE session_key = $1
