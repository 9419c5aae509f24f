-- The statements of the ledger in PostgreSQL: one statement a batch, rows changed in the order of their ids.
--
-- `= ANY (ARRAY[…])` instead of `=` makes every plan find the changed rows by key, one after another. A plain
-- join leaves that to the planner: while the table is small, it reads the whole table for a batch and
-- compares every row with every claim.
--
-- If all rows have one value, its array holds it once: `unnest` fills the column up with NULL, and `coalesce`
-- takes the first. The driver inspects each value of an array, which takes longer than all the rest.

-- name: table
-- Half of each page is left for the completions of its claims, which then need no entry in the key's index.
-- `next_attempt` is the attempt that waits until this claim is released or its lease has ended.
CREATE TABLE IF NOT EXISTS warrener_ledger (
    job_id uuid PRIMARY KEY,
    attempt integer NOT NULL,
    agent_id text,
    lease_until timestamptz,
    cancelled_at timestamptz,
    result text,
    child_jobs text,
    started_at timestamptz,
    finished_at timestamptz,
    failure text,
    claimed_at timestamptz NOT NULL DEFAULT now(),
    next_attempt integer,
    CHECK ((finished_at IS NULL) = (result IS NULL)),
    CHECK (failure IS NULL OR (agent_id IS NULL AND finished_at IS NULL))
) WITH (fillfactor = 50)

-- name: table_before
-- For a table of an earlier version: its rows count as claimed now, and none of them is rewritten.
ALTER TABLE warrener_ledger ADD COLUMN IF NOT EXISTS claimed_at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN IF NOT EXISTS next_attempt integer

-- name: is_made
-- The newest part of the schema: if it exists, an agent needs no permission to make tables.
SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('warrener_ledger') AND attname = 'next_attempt'

-- name: claimed
-- Finds old rows. `claimed_at` is written once, when a row is inserted: an index on a column that a
-- completion writes would use up the free half of the page. All claims of a batch share one moment, so their
-- entries share one key.
CREATE INDEX IF NOT EXISTS warrener_ledger_claimed ON warrener_ledger (claimed_at)

-- name: free
(held.agent_id IS NULL OR held.agent_id = excluded.agent_id OR held.lease_until <= now())

-- name: claim
-- An attempt is granted once the one before was released or its lease has ended; until then it is noted as
-- the next one, and the holder cannot renew. The grant carries the last checkpoint: an agent that takes an
-- attempt over knows nothing else of it.
WITH claimed AS (
    INSERT INTO warrener_ledger AS held (job_id, attempt, agent_id, lease_until)
    SELECT job_id, coalesce(attempt, ($2::integer[])[1]), $3, now() + $4::interval
    FROM unnest($1::uuid[], $2::integer[]) AS wanted (job_id, attempt)
    ON CONFLICT (job_id) DO UPDATE
        SET attempt = CASE WHEN {free} THEN excluded.attempt ELSE held.attempt END,
            agent_id = CASE WHEN {free} THEN excluded.agent_id ELSE held.agent_id END,
            lease_until = CASE WHEN {free} THEN excluded.lease_until ELSE held.lease_until END,
            next_attempt = CASE WHEN {free} THEN NULL ELSE excluded.attempt END,
            failure = NULL
        WHERE held.finished_at IS NULL AND held.cancelled_at IS NULL
            AND excluded.attempt >= coalesce(held.next_attempt, held.attempt)
            AND CASE WHEN {free} THEN excluded.attempt > held.attempt OR held.failure IS NULL
                ELSE excluded.attempt > coalesce(held.next_attempt, held.attempt) END
    RETURNING job_id, attempt, next_attempt
)
SELECT job_id, attempt, (
    SELECT kept.number::text || ' ' || kept.state FROM warrener_ledger_checkpoints AS kept
    WHERE kept.job_id = claimed.job_id
) AS checkpoint
FROM claimed WHERE next_attempt IS NULL

-- name: look
SELECT job_id, attempt, cancelled_at, result, child_jobs, started_at, finished_at, failure
FROM warrener_ledger WHERE job_id = ANY ($1::uuid[])

-- name: mine
FROM unnest($1::uuid[], $2::integer[]) AS given (job_id, attempt)
WHERE held.job_id = ANY (ARRAY[given.job_id]) AND held.attempt = coalesce(given.attempt, ($2::integer[])[1])
    AND held.agent_id = $3

-- name: renewed
UPDATE warrener_ledger AS held SET lease_until = now() + $4::interval {mine}
    AND held.cancelled_at IS NULL

-- name: renew
{renewed} AND held.next_attempt IS NULL RETURNING held.job_id

-- name: renew_even_awaited
-- For a handler that only the end of its process can stop: the waiting attempt goes on waiting.
{renewed} RETURNING held.job_id

-- name: release
-- A row without an agent is free whatever its lease is; the lease records since when (FORGET).
UPDATE warrener_ledger AS held SET agent_id = NULL, lease_until = now() {mine}

-- name: complete
UPDATE warrener_ledger AS held
SET result = coalesce(done.result, ($3::text[])[1]), child_jobs = coalesce(done.child_jobs, ($4::text[])[1]),
    started_at = done.started_at, finished_at = done.finished_at
FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[])
    AS done (job_id, attempt, result, child_jobs, started_at, finished_at)
WHERE held.job_id = ANY (ARRAY[done.job_id]) AND held.attempt = coalesce(done.attempt, ($2::integer[])[1])
    AND held.agent_id = $7
    AND held.finished_at IS NULL AND held.cancelled_at IS NULL
RETURNING held.job_id

-- name: locked
WITH free AS MATERIALIZED (
    SELECT job_id FROM warrener_ledger WHERE job_id = ANY ($1::uuid[]) FOR NO KEY UPDATE SKIP LOCKED
)
SELECT job_id FROM warrener_ledger WHERE job_id = ANY ($1::uuid[])
EXCEPT SELECT job_id FROM free

-- name: commit_with
-- A completion and the end of a handler's transaction in one message, so that no network delay comes between
-- the row's lock and the commit. A message of several statements takes no parameters: see `_literal`. If the
-- claim is lost, the cast fails, and with it all that follows in the message. The planner settings hold for
-- this statement alone; `clean_up` resets what the handler left in the session.
SET LOCAL enable_seqscan = off; SET LOCAL lock_timeout = '3s';
WITH done AS (
    UPDATE warrener_ledger
    SET result = {result}, child_jobs = {child_jobs}, started_at = {started_at},
        finished_at = {finished_at}
    WHERE job_id = {job_id} AND attempt = {attempt} AND agent_id = {agent_id}
        AND finished_at IS NULL AND cancelled_at IS NULL
    RETURNING job_id
)
SELECT CASE count(*) WHEN 0 THEN '{lost}' ELSE '1' END::integer FROM done;
COMMIT; {clean_up}

-- name: fail
UPDATE warrener_ledger AS held
SET failure = ended.failure, agent_id = NULL, lease_until = ended.at
FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::timestamptz[])
    AS ended (job_id, attempt, failure, at)
WHERE held.job_id = ANY (ARRAY[ended.job_id]) AND held.attempt = ended.attempt AND held.agent_id = $5
    AND held.finished_at IS NULL AND held.cancelled_at IS NULL
RETURNING held.job_id

-- name: fail_abandoned
UPDATE warrener_ledger AS held
SET failure = replace(ended.failure, $6, split_part(held.agent_id, $7, 1)), agent_id = NULL,
    lease_until = ended.at
FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::timestamptz[])
    AS ended (job_id, attempt, failure, at)
WHERE held.job_id = ANY (ARRAY[ended.job_id]) AND held.attempt = ended.attempt AND held.agent_id <> $5
    AND (held.lease_until <= now() OR split_part(held.agent_id, $7, 1) = split_part($5, $7, 1))
    AND held.finished_at IS NULL AND held.cancelled_at IS NULL
RETURNING held.job_id

-- name: cancel
INSERT INTO warrener_ledger AS held (job_id, attempt, cancelled_at)
SELECT job_id, 0, $2 FROM unnest($1::uuid[]) AS given (job_id)
ON CONFLICT (job_id) DO UPDATE SET cancelled_at = excluded.cancelled_at
    WHERE held.finished_at IS NULL AND held.cancelled_at IS NULL

-- name: checkpoints
CREATE TABLE IF NOT EXISTS warrener_ledger_checkpoints (
    job_id uuid PRIMARY KEY,
    attempt integer NOT NULL,
    number integer NOT NULL,
    state text NOT NULL,
    saved_at timestamptz NOT NULL
)

-- name: save
-- The claim is locked meanwhile, so that it is granted to no agent between the check and the save.
INSERT INTO warrener_ledger_checkpoints (job_id, attempt, number, state, saved_at)
SELECT held.job_id, held.attempt, saved.number, saved.state, $6
FROM unnest($1::uuid[], $2::integer[], $3::integer[], $4::text[]) AS saved (job_id, attempt, number, state)
JOIN warrener_ledger AS held ON held.job_id = ANY (ARRAY[saved.job_id]) AND held.attempt = saved.attempt
WHERE held.agent_id = $5 AND held.finished_at IS NULL AND held.cancelled_at IS NULL
FOR SHARE OF held
ON CONFLICT (job_id) DO UPDATE
    SET attempt = excluded.attempt, number = excluded.number, state = excluded.state,
        saved_at = excluded.saved_at
RETURNING job_id

-- name: forget
-- One batch, by the index of claims; WITH TIES, as the claims of a batch share their moment. The lock is held
-- for this statement alone, so that no two agents search for old rows at the same time.
WITH turn AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtext('warrener_ledger.forget')) AS mine
), page AS MATERIALIZED (
    SELECT held.job_id, held.claimed_at
    FROM turn CROSS JOIN LATERAL (
        SELECT job_id, claimed_at FROM warrener_ledger
        WHERE turn.mine AND claimed_at < $1 AND claimed_at > coalesce($2, timestamptz '-infinity')
        ORDER BY claimed_at
        FETCH FIRST ($3::bigint) ROWS WITH TIES
    ) AS held
), old AS (
    SELECT held.job_id FROM page JOIN warrener_ledger AS held ON held.job_id = ANY (ARRAY[page.job_id])
    WHERE coalesce(held.finished_at, greatest(held.lease_until, held.cancelled_at), held.claimed_at) < $1
    FOR UPDATE OF held SKIP LOCKED
), gone AS (
    DELETE FROM warrener_ledger AS held USING old WHERE held.job_id = ANY (ARRAY[old.job_id])
    RETURNING held.job_id, held.finished_at
), checkpoints AS (
    DELETE FROM warrener_ledger_checkpoints AS kept USING gone WHERE kept.job_id = ANY (ARRAY[gone.job_id])
)
SELECT
    (SELECT count(*) FROM gone) AS rows,
    (SELECT count(*) FROM gone WHERE finished_at IS NOT NULL) AS completions,
    CASE WHEN (SELECT count(*) FROM page) >= $3::bigint THEN (SELECT max(claimed_at) FROM page) END AS after
