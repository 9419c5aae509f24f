-- Workflows: a job may be suspended, and has turns and signals.
--
-- ALTER TABLE changes no rule in SQLite, and to copy the jobs takes as long as there are many. The rules become wider, so
-- their text is all that changes: https://www.sqlite.org/lang_altertable.html, the end of section 7. RESET reads it again.
ALTER TABLE warrener_jobs ADD COLUMN suspensions integer NOT NULL DEFAULT 0
    CONSTRAINT suspensions_not_negative CHECK (suspensions >= 0);
ALTER TABLE warrener_jobs ADD COLUMN settled_attempt integer NOT NULL DEFAULT 0;
ALTER TABLE warrener_jobs ADD COLUMN ending text
    CONSTRAINT ending_known CHECK (ending IN ('cancelled', 'dead', 'expired'));
ALTER TABLE warrener_jobs ADD COLUMN ending_reason text;
PRAGMA writable_schema = ON;
UPDATE sqlite_master
SET sql = replace(
    replace(sql, '''retrying'', ''succeeded''', '''retrying'', ''suspended'', ''succeeded'''),
    '''retrying'', ''running'')', '''retrying'', ''running'', ''suspended'')'
)
WHERE type = 'table' AND name IN ('warrener_jobs', 'warrener_job_counts');
PRAGMA writable_schema = RESET;
-- Refuses to go on if the rules were not found; and with a new table all other connections read the rules again.
CREATE TABLE warrener_checked (tables integer CONSTRAINT both_tables_know_suspended_jobs CHECK (tables = 2));
INSERT INTO warrener_checked
SELECT count(*) FROM sqlite_master
WHERE type = 'table' AND sql LIKE '%''retrying'', ''suspended''%'
    AND (name = 'warrener_job_counts' OR name = 'warrener_jobs' AND sql LIKE '%''running'', ''suspended'')%');
DROP TABLE warrener_checked;

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
