-- Gates: jobs that take turns; the jobs of maps; generations of workflows that never end; and timeouts that retry rules
-- have chosen.
--
-- Nothing is rewritten or read, however many jobs there are: the columns are NULL or 0 in all rows, and no index is made of jobs.
ALTER TABLE warrener_jobs ADD COLUMN member_of text;
ALTER TABLE warrener_jobs ADD COLUMN gates text;
ALTER TABLE warrener_jobs ADD COLUMN generation integer NOT NULL DEFAULT 0;
ALTER TABLE warrener_jobs ADD COLUMN timeout_seconds {fraction};
ALTER TABLE warrener_signals ADD COLUMN generation integer;

-- A gate that jobs have come to; a lock of its row is what its slots are given under.
CREATE TABLE warrener_gates (
    gate text NOT NULL PRIMARY KEY,
    slots integer NOT NULL,
    updated_at {moment} NOT NULL,
    CONSTRAINT slots_from_one CHECK (slots >= 1)
);

-- A slot is a numbered row, so that no two jobs have the same one, whatever anybody has counted. A report of an attempt frees
-- what was taken for it or for an earlier one. No foreign key: a slot is taken before its job is inserted.
CREATE TABLE warrener_slots (
    gate text NOT NULL,
    number integer NOT NULL,
    job_id {id} NOT NULL,
    attempt integer NOT NULL,
    taken_at {moment} NOT NULL,
    PRIMARY KEY (gate, number),
    CONSTRAINT slot_from_one CHECK (number >= 1)
);
CREATE UNIQUE INDEX warrener_slots_job ON warrener_slots (job_id, gate);

-- The line before a gate: jobs that wait for one of its slots, each at the one gate that had none. `since` is the job's due_at;
-- a row of another wait is deleted by the next that comes past it.
CREATE TABLE warrener_gate_waiters (
    job_id {id} NOT NULL PRIMARY KEY,
    gate text NOT NULL,
    since {moment} NOT NULL
);
CREATE INDEX warrener_gate_waiters_line ON warrener_gate_waiters (gate, since, job_id);

-- What each suspended workflow waits for, for metrics: read up to a bound by its index.
CREATE TABLE warrener_workflow_waits (
    job_id {id} NOT NULL PRIMARY KEY REFERENCES warrener_jobs (job_id) ON DELETE CASCADE,
    kind text NOT NULL,
    since {moment} NOT NULL
);
CREATE INDEX warrener_workflow_waits_kind ON warrener_workflow_waits (kind, since);
