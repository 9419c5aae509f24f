-- The statements of the ledger in SQLite: a batch is JSON, an array of arrays in the order of the columns.
-- `:now` is the time by which leases go, `:at` that of the caller; both in the format of `timestamp_text`.

-- name: completions
CREATE TABLE IF NOT EXISTS warrener_completions (
    job_id TEXT PRIMARY KEY, attempt INTEGER NOT NULL, result TEXT NOT NULL, child_jobs TEXT NOT NULL,
    started_at TEXT NOT NULL, finished_at TEXT NOT NULL
) WITHOUT ROWID

-- name: completions_by_end
CREATE INDEX IF NOT EXISTS warrener_completions_finished ON warrener_completions (finished_at)

-- name: claims
CREATE TABLE IF NOT EXISTS warrener_claims (
    job_id TEXT PRIMARY KEY, attempt INTEGER NOT NULL, agent_id TEXT, lease_until TEXT, cancelled_at TEXT,
    failure TEXT CHECK (failure IS NULL OR agent_id IS NULL),
    claimed_at TEXT NOT NULL DEFAULT '0001-01-01T00:00:00.000000+00:00', next_attempt INTEGER
) WITHOUT ROWID

-- name: claimed
CREATE INDEX IF NOT EXISTS warrener_claims_claimed ON warrener_claims (claimed_at)

-- name: checkpoints
CREATE TABLE IF NOT EXISTS warrener_checkpoints (
    job_id TEXT PRIMARY KEY, attempt INTEGER NOT NULL, number INTEGER NOT NULL, state TEXT NOT NULL,
    saved_at TEXT NOT NULL
) WITHOUT ROWID

-- name: free
(agent_id IS NULL OR agent_id = excluded.agent_id OR lease_until <= :now)

-- name: claim
-- A returned row with a next attempt was not granted: that attempt waits until the claim is released or its
-- lease has ended, and the holder cannot renew meanwhile.
INSERT INTO warrener_claims (job_id, attempt, agent_id, lease_until, claimed_at)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), :agent, :until, :now
FROM json_each(:batch) WHERE true
ON CONFLICT (job_id) DO UPDATE
    SET attempt = iif({free}, excluded.attempt, attempt),
        agent_id = iif({free}, excluded.agent_id, agent_id),
        lease_until = iif({free}, excluded.lease_until, lease_until),
        next_attempt = iif({free}, NULL, excluded.attempt),
        failure = NULL
    WHERE cancelled_at IS NULL AND excluded.attempt >= coalesce(next_attempt, attempt)
        AND iif({free}, excluded.attempt > attempt OR failure IS NULL,
            excluded.attempt > coalesce(next_attempt, attempt))
RETURNING job_id, attempt, next_attempt, (
    SELECT kept.number || ' ' || kept.state FROM warrener_checkpoints AS kept
    WHERE kept.job_id = warrener_claims.job_id
)

-- name: mine
FROM (
    SELECT json_extract(value, '$[0]') AS job, json_extract(value, '$[1]') AS number
    FROM json_each(:batch)
)
WHERE job_id = job AND attempt = number AND agent_id = :agent

-- name: renew
UPDATE warrener_claims SET lease_until = :until {mine} AND cancelled_at IS NULL
    AND (:awaited OR next_attempt IS NULL)
RETURNING job_id

-- name: release
UPDATE warrener_claims SET agent_id = NULL, lease_until = :now {mine}

-- name: complete
INSERT INTO warrener_completions (job_id, attempt, result, child_jobs, started_at, finished_at)
SELECT c.job_id, c.attempt, json_extract(value, '$[2]'), json_extract(value, '$[3]'),
    json_extract(value, '$[4]'), json_extract(value, '$[5]')
FROM json_each(:batch) JOIN warrener_claims AS c
    ON c.job_id = json_extract(value, '$[0]') AND c.attempt = json_extract(value, '$[1]')
WHERE c.agent_id = :agent AND c.cancelled_at IS NULL
ON CONFLICT (job_id) DO NOTHING
RETURNING job_id

-- name: ended
FROM (
    SELECT json_extract(value, '$[0]') AS job, json_extract(value, '$[1]') AS number,
        json_extract(value, '$[2]') AS ended, json_extract(value, '$[3]') AS at
    FROM json_each(:batch)
)
WHERE job_id = job AND attempt = number AND cancelled_at IS NULL

-- name: fail
UPDATE warrener_claims SET failure = ended, agent_id = NULL, lease_until = at {ended}
    AND agent_id = :agent
RETURNING job_id

-- name: holder
substr(agent_id, 1, instr(agent_id || :mark, :mark) - 1)

-- name: fail_abandoned
UPDATE warrener_claims SET failure = replace(ended, :holder, {holder}), agent_id = NULL, lease_until = at
    {ended} AND agent_id <> :agent
    AND (lease_until <= :now OR {holder} = substr(:agent, 1, instr(:agent || :mark, :mark) - 1))
RETURNING job_id

-- name: save
INSERT INTO warrener_checkpoints (job_id, attempt, number, state, saved_at)
SELECT c.job_id, c.attempt, json_extract(value, '$[2]'), json_extract(value, '$[3]'), :at
FROM json_each(:batch) JOIN warrener_claims AS c
    ON c.job_id = json_extract(value, '$[0]') AND c.attempt = json_extract(value, '$[1]')
WHERE c.agent_id = :agent AND c.cancelled_at IS NULL
ON CONFLICT (job_id) DO UPDATE
    SET attempt = excluded.attempt, number = excluded.number, state = excluded.state,
        saved_at = excluded.saved_at
RETURNING job_id

-- name: cancel
INSERT INTO warrener_claims (job_id, attempt, cancelled_at, claimed_at)
SELECT value, 0, :at, :now FROM json_each(:batch) WHERE true
ON CONFLICT (job_id) DO UPDATE SET cancelled_at = coalesce(cancelled_at, excluded.cancelled_at)

-- name: completed
SELECT job_id, attempt, result, child_jobs, started_at, finished_at FROM warrener_completions
WHERE job_id IN (SELECT value FROM json_each(?))

-- name: held
SELECT job_id, attempt, cancelled_at IS NOT NULL, failure FROM warrener_claims
WHERE job_id IN (SELECT value FROM json_each(?))

-- name: page_end
SELECT claimed_at FROM warrener_claims WHERE claimed_at > :after AND claimed_at < :before
ORDER BY claimed_at LIMIT 1 OFFSET :limit - 1

-- name: forget_claims
DELETE FROM warrener_claims
WHERE claimed_at > :after AND claimed_at <= :end AND claimed_at < :before
    AND coalesce(lease_until, '') < :before AND coalesce(cancelled_at, '') < :before
RETURNING job_id

-- name: forget_checkpoints
DELETE FROM warrener_checkpoints WHERE job_id IN (SELECT value FROM json_each(:jobs))

-- name: forget_completions
DELETE FROM warrener_completions WHERE job_id IN (
    SELECT job_id FROM warrener_completions WHERE finished_at < :before ORDER BY finished_at LIMIT :limit
)

-- name: old_completion
SELECT 1 FROM warrener_completions WHERE finished_at < ? LIMIT 1

-- name: still_mine
SELECT 1 FROM warrener_claims AS c
WHERE job_id = ? AND attempt = ? AND agent_id = ? AND cancelled_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM warrener_completions AS d WHERE d.job_id = c.job_id)

-- name: record
INSERT OR IGNORE INTO warrener_completions VALUES (?, ?, ?, ?, ?, ?)
