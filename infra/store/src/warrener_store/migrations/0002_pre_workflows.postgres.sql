-- Workflows: a job may be suspended, and has turns and signals.
--
-- Nothing is rewritten or read, however many jobs there are. NOT VALID: all rows obey the rules of step 0001, which
-- allow less, so only new ones need a look. While the step waits for its lock, all writers wait behind it: a session that
-- holds the table for long, such as a backup, makes it fail.
SET LOCAL lock_timeout = '10s';
ALTER TABLE warrener_jobs
    ADD COLUMN suspensions integer NOT NULL DEFAULT 0,
    ADD COLUMN settled_attempt integer NOT NULL DEFAULT 0,
    ADD COLUMN ending text,
    ADD COLUMN ending_reason text,
    DROP CONSTRAINT state_known,
    ADD CONSTRAINT state_known CHECK (
        state IN ('waiting', 'queued', 'running', 'retrying', 'suspended', 'succeeded', 'dead', 'cancelled', 'expired')
    ) NOT VALID,
    DROP CONSTRAINT attempt_where_dispatched,
    ADD CONSTRAINT attempt_where_dispatched CHECK (
        attempt >= 1 OR NOT (state IN ('queued', 'retrying', 'running', 'suspended'))
    ) NOT VALID,
    ADD CONSTRAINT suspensions_not_negative CHECK (suspensions >= 0) NOT VALID,
    ADD CONSTRAINT ending_known CHECK (ending IN ('cancelled', 'dead', 'expired')) NOT VALID;
ALTER TABLE warrener_job_counts
    DROP CONSTRAINT counted_state_known,
    ADD CONSTRAINT counted_state_known CHECK (
        state IN ('waiting', 'queued', 'running', 'retrying', 'suspended', 'succeeded', 'dead', 'cancelled', 'expired')
    );

CREATE TABLE warrener_workflow_turns (
    job_id {id} NOT NULL REFERENCES warrener_jobs (job_id) ON DELETE CASCADE,
    attempt integer NOT NULL,
    answers text NOT NULL,
    began_at {moment},
    suspension text,
    suspended_at {moment},
    PRIMARY KEY (job_id, attempt),
    CONSTRAINT turn_from_one CHECK (attempt >= 1)
);

-- No foreign key: a signal may come before its job.
CREATE TABLE warrener_signals (
    job_id {id} NOT NULL,
    signal_id text NOT NULL,
    name text NOT NULL,
    data text,
    received_at {moment} NOT NULL,
    PRIMARY KEY (job_id, signal_id)
);
CREATE INDEX warrener_signals_received ON warrener_signals (received_at);
