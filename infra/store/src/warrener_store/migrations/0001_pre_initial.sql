-- All tables of version 1.0. Their names begin with warrener_: the store may live in a database that is not its own.
-- Words in braces are the types and functions that PostgreSQL and SQLite spell differently (`migrator.py`).
-- `jobs/rules.py` has the rules of jobs in Python. This step is released: a change of a table is a step of its own.

-- Jobs, their attempts, log lines, counts, cancelled trees and checkpoints.

-- One row a job. With ten million finished rows the hot statements see none of them: they go by the primary key,
-- or by a partial index that holds only jobs that are not over. PostgreSQL writes an entry into each index at each
-- change of a row, so there is no index without a query.
CREATE TABLE warrener_jobs (
    -- The request; never changes.
    job_id {id} NOT NULL PRIMARY KEY,
    job_type text NOT NULL,
    queue text NOT NULL,
    arguments text NOT NULL,
    guarantee text NOT NULL,
    policy text NOT NULL,
    source text NOT NULL,
    idempotency_key text,
    parent_id {id},
    traceparent text,
    tracestate text,
    baggage text,
    requested_at {moment} NOT NULL,
    accepted_at {moment} NOT NULL,
    deadline_at {moment},
    request_hash text NOT NULL,
    -- The state.
    version integer NOT NULL,
    state text NOT NULL,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    losses integer NOT NULL,
    agent_id text,
    watchers text NOT NULL,
    cancel_reason text,
    due_at {moment},
    wake_at {moment},
    dispatched_at {moment},
    started_at {moment},
    lease_until {moment},
    finished_at {moment},
    progress {fraction},
    progress_note text,
    result text,
    error text,
    updated_at {moment} NOT NULL,
    -- The store's own: when a supervisor must look at the deadline. It starts as deadline_at; claims move it.
    deadline_wake_at {moment},
    -- When the successful attempt ran; the columns above hold the rest of it.
    run_started_at {moment},
    run_finished_at {moment},
    CONSTRAINT state_known CHECK (
        state IN ('waiting', 'queued', 'running', 'retrying', 'succeeded', 'dead', 'cancelled', 'expired')
    ),
    CONSTRAINT guarantee_known CHECK (guarantee IN ('idempotent', 'transactional', 'exclusive')),
    CONSTRAINT version_from_one CHECK (version >= 1),
    CONSTRAINT counts_not_negative CHECK (attempt >= 0 AND failures >= 0 AND losses >= 0),
    CONSTRAINT over_iff_finished_at CHECK (
        (state IN ('cancelled', 'dead', 'expired', 'succeeded')) = (finished_at IS NOT NULL)
    ),
    CONSTRAINT over_iff_never_woken CHECK (
        (state IN ('cancelled', 'dead', 'expired', 'succeeded')) = (wake_at IS NULL)
    ),
    CONSTRAINT running_has_owner_and_lease CHECK (
        state <> 'running' OR (agent_id IS NOT NULL AND lease_until IS NOT NULL)
    ),
    CONSTRAINT attempt_where_dispatched CHECK (attempt >= 1 OR NOT (state IN ('queued', 'retrying', 'running'))),
    CONSTRAINT no_attempt_while_waiting CHECK (state <> 'waiting' OR attempt = 0),
    CONSTRAINT result_only_if_succeeded CHECK (result IS NULL OR state = 'succeeded'),
    CONSTRAINT progress_is_a_fraction CHECK (progress IS NULL OR (progress >= 0 AND progress <= 1)),
    CONSTRAINT ran_only_if_succeeded CHECK (
        CASE WHEN run_finished_at IS NULL THEN run_started_at IS NULL ELSE state = 'succeeded' END
    ),
    CONSTRAINT deadline_watched_until_over CHECK (
        deadline_wake_at IS NULL
        OR (deadline_at IS NOT NULL AND NOT (state IN ('cancelled', 'dead', 'expired', 'succeeded')))
    )
);
CREATE INDEX warrener_jobs_deadline ON warrener_jobs (deadline_wake_at, job_id) WHERE deadline_wake_at IS NOT NULL;
-- In the order of claims, also if a million jobs are due at one moment. Claims select some states: with the state in
-- the index, rows that are due for another service cost no visit.
CREATE INDEX warrener_jobs_due ON warrener_jobs (wake_at, job_id, state) WHERE wake_at IS NOT NULL;
-- By the last eight characters of an id, which people copy from a list; a UUID's text begins alike for hours.
CREATE INDEX warrener_jobs_end ON warrener_jobs (substr(CAST(job_id AS text), 29));
-- The jobs that are over, in the order of their ends: statistics read each of them once. A job enters it once, at its
-- right end; equal moments share one entry in PostgreSQL.
CREATE INDEX warrener_jobs_ended ON warrener_jobs (finished_at) WHERE finished_at IS NOT NULL;
CREATE UNIQUE INDEX warrener_jobs_key ON warrener_jobs (idempotency_key) WHERE idempotency_key IS NOT NULL;
-- Lists: newest first of each state, by type and by parent; a list of all states or all types takes a page of each
-- (`list_query.py`). New rows come at the right end of their state and type.
CREATE INDEX warrener_jobs_listed ON warrener_jobs (state, job_type, accepted_at, job_id);
CREATE INDEX warrener_jobs_parent ON warrener_jobs (parent_id, state, accepted_at, job_id)
    WHERE parent_id IS NOT NULL;
-- The jobs that each dispatch queue should hold, the first dispatched first; unpublished ones have no moment.
CREATE INDEX warrener_jobs_queued ON warrener_jobs (queue, dispatched_at, job_id) WHERE state = 'queued';
-- Running jobs by agent: read when a heartbeat's list differs, and when an agent is silent. Most jobs are over before
-- they are known to run, and never stand in it.
CREATE INDEX warrener_jobs_running ON warrener_jobs (agent_id) WHERE state = 'running';
-- The sources of jobs whose id was derived (a UUID of version 5), such as from the id that a requester chose: one
-- entry of each source is read. Ids that clients make by default are no part of it.
CREATE INDEX warrener_jobs_source ON warrener_jobs (source) WHERE substr(CAST(job_id AS text), 15, 1) = '5';

CREATE TABLE warrener_attempts (
    job_id {id} NOT NULL REFERENCES warrener_jobs (job_id) ON DELETE CASCADE,
    attempt integer NOT NULL,
    outcome text NOT NULL,
    agent_id text,
    dispatched_at {moment},
    started_at {moment},
    finished_at {moment} NOT NULL,
    error text,
    verdict text NOT NULL,
    PRIMARY KEY (job_id, attempt),
    CONSTRAINT attempt_from_one CHECK (attempt >= 1),
    CONSTRAINT outcome_known CHECK (
        outcome IN ('succeeded', 'failed', 'cancelled', 'released', 'timed_out', 'lost', 'not_started', 'snoozed')
    )
);
-- Losses are few, and are listed by the agent that is to blame.
CREATE INDEX warrener_attempts_lost ON warrener_attempts (agent_id, finished_at) WHERE outcome = 'lost';

-- Chunks of lines, as agents have published them. A row is never changed, so that an attempt that logs a lot rewrites
-- nothing, but that the last one becomes final; old rows are deleted.
CREATE TABLE warrener_attempt_logs (
    job_id {id} NOT NULL REFERENCES warrener_jobs (job_id) ON DELETE CASCADE,
    attempt integer NOT NULL,
    started_at {moment} NOT NULL,
    first_line bigint NOT NULL,
    last_line bigint NOT NULL,
    line_count integer NOT NULL,
    agent_id text NOT NULL,
    final boolean NOT NULL,
    size integer NOT NULL,
    lines text NOT NULL,
    PRIMARY KEY (job_id, attempt, started_at, first_line),
    CONSTRAINT lines_in_order CHECK (first_line >= 1 AND last_line >= first_line)
);

-- The number of jobs by type, queue and state: fed by the statements that move them, never counted on reading. The
-- number is the sum over the slots. Each connection adds to a slot of its own, so that writers do not wait for each
-- other's commits on one hot row; a single slot may therefore be negative.
CREATE TABLE warrener_job_counts (
    job_type text NOT NULL,
    queue text NOT NULL,
    state text NOT NULL,
    slot smallint NOT NULL,
    jobs bigint NOT NULL,
    PRIMARY KEY (job_type, queue, state, slot),
    CONSTRAINT counted_state_known CHECK (
        state IN ('waiting', 'queued', 'running', 'retrying', 'succeeded', 'dead', 'cancelled', 'expired')
    )
);

-- Almost always empty: each batch of child jobs reads it.
CREATE TABLE warrener_cancelled_trees (
    job_id {id} NOT NULL PRIMARY KEY REFERENCES warrener_jobs (job_id) ON DELETE CASCADE,
    reason text NOT NULL,
    cancelled_at {moment} NOT NULL
);

CREATE TABLE warrener_checkpoints (
    job_id {id} NOT NULL PRIMARY KEY REFERENCES warrener_jobs (job_id) ON DELETE CASCADE,
    attempt integer NOT NULL,
    number integer NOT NULL,
    state text,
    saved_at {moment} NOT NULL,
    CONSTRAINT number_from_one CHECK (number >= 1)
);

-- Dead letters, redrives and parked messages.
CREATE TABLE warrener_dead_letters (
    job_id {id} NOT NULL PRIMARY KEY REFERENCES warrener_jobs (job_id) ON DELETE CASCADE,
    job_type text NOT NULL,
    attempts integer NOT NULL,
    reason text NOT NULL,
    error text,
    died_at {moment} NOT NULL,
    fingerprint text NOT NULL DEFAULT '',
    -- How far it has been dealt with.
    state text NOT NULL DEFAULT 'open',
    redrive_id {id},
    redriven_as {id},
    redrives integer NOT NULL DEFAULT '0',
    redriven_at {moment},
    note text,
    CONSTRAINT attempts_not_negative CHECK (attempts >= 0),
    CONSTRAINT dead_letter_state_known CHECK (
        state IN (
            'open', 'claimed', 'redriven', 'succeeded', 'died_again', 'died', 'reopened', 'rejected',
            'already_succeeded', 'dropped'
        )
    )
);
CREATE INDEX warrener_dead_letters_newest ON warrener_dead_letters (died_at, job_id);
CREATE INDEX warrener_dead_letters_redrive ON warrener_dead_letters (redrive_id, state, died_at, job_id)
    WHERE redrive_id IS NOT NULL;
CREATE INDEX warrener_dead_letters_redriven_as ON warrener_dead_letters (redriven_as) WHERE redriven_as IS NOT NULL;
-- Groups by cause, and the dead letters of one cause from the first on: only those that are unresolved. SQLite
-- compares the state of each all the same: with it in the index, counts read no row.
CREATE INDEX warrener_dead_letters_unresolved ON warrener_dead_letters (fingerprint, died_at, job_id, state)
    WHERE state IN ('open', 'reopened', 'rejected');

-- One row a redrive: a handful a day, so no index but the key.
CREATE TABLE warrener_redrives (
    -- The request; never changes.
    redrive_id {id} NOT NULL PRIMARY KEY,
    kind text NOT NULL,
    request text NOT NULL,
    requested_by text NOT NULL,
    reason text NOT NULL,
    requested_at {moment} NOT NULL,
    -- The progress.
    version integer NOT NULL,
    state text NOT NULL,
    stop_reason text NOT NULL,
    counts text NOT NULL,
    started_at {moment} NOT NULL,
    counts_at_start text NOT NULL,
    journal text NOT NULL,
    after_died_at {moment},
    after_job_id {id},
    wake_at {moment},
    updated_at {moment} NOT NULL,
    finished_at {moment},
    CONSTRAINT redrive_kind_known CHECK (kind IN ('redrive', 'dry_run', 'drop')),
    CONSTRAINT redrive_state_known CHECK (state IN ('canary', 'rolling', 'stopped', 'done'))
);

CREATE TABLE warrener_parked (
    parked_id text NOT NULL PRIMARY KEY,
    queue text NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    content_type text,
    body {bytes} NOT NULL,
    parked_at {moment} NOT NULL,
    -- How it came, so that it can be published again in the same way.
    exchange text,
    routing_key text,
    message_id text,
    type text,
    headers text,
    times integer NOT NULL DEFAULT '1'
);
CREATE INDEX warrener_parked_by_queue ON warrener_parked (queue, parked_at, parked_id);
CREATE INDEX warrener_parked_by_reason ON warrener_parked (reason, parked_at, parked_id);
CREATE INDEX warrener_parked_newest ON warrener_parked (parked_at, parked_id);

-- Incidents, their occurrences and the policies of escalation.
CREATE TABLE warrener_incidents (
    fingerprint text NOT NULL PRIMARY KEY,
    kind text NOT NULL,
    subject text NOT NULL,
    job_type text,
    sample text NOT NULL,
    times integer NOT NULL,
    first_seen_at {moment} NOT NULL,
    last_seen_at {moment} NOT NULL,
    round integer NOT NULL,
    policy_version text,
    policy_history text,
    step integer NOT NULL,
    due_at {moment},
    failed_tries integer NOT NULL,
    delivered text NOT NULL,
    last_error text,
    wake_at {moment},
    claimed_by text,
    claimed_until {moment},
    acknowledged_by text,
    acknowledged_at {moment},
    snoozed_until {moment},
    closed_at {moment},
    close_reason text,
    CONSTRAINT incident_counts_not_negative CHECK (times >= 1 AND round >= 1 AND step >= 0 AND failed_tries >= 0),
    CONSTRAINT closed_incident_sleeps CHECK (closed_at IS NULL OR wake_at IS NULL)
);
CREATE INDEX warrener_incidents_due ON warrener_incidents (wake_at, fingerprint) WHERE wake_at IS NOT NULL;
CREATE INDEX warrener_incidents_newest ON warrener_incidents (last_seen_at, fingerprint);
CREATE INDEX warrener_incidents_open ON warrener_incidents (last_seen_at, fingerprint) WHERE closed_at IS NULL;

CREATE TABLE warrener_incident_occurrences (
    fingerprint text NOT NULL,
    occurrence text NOT NULL,
    subject text NOT NULL,
    raised_at {moment} NOT NULL,
    steps_done integer NOT NULL,
    PRIMARY KEY (fingerprint, occurrence),
    CONSTRAINT steps_done_not_negative CHECK (steps_done >= 0)
);
CREATE INDEX warrener_incident_occurrences_pending
    ON warrener_incident_occurrences (fingerprint, steps_done, raised_at);
CREATE INDEX warrener_incident_occurrences_raised ON warrener_incident_occurrences (raised_at);

CREATE TABLE warrener_escalation_policies (
    version text NOT NULL PRIMARY KEY,
    name text NOT NULL,
    definition text NOT NULL,
    first_seen_at {moment} NOT NULL,
    last_seen_at {moment} NOT NULL
);

-- Schedules, ticks, declarations, watches, triggers and arrivals.
CREATE TABLE warrener_schedules (
    name text NOT NULL PRIMARY KEY,
    definition text NOT NULL,
    put_at {moment} NOT NULL,
    zone_version text NOT NULL,
    paused boolean NOT NULL,
    next_at {moment},
    wake_at {moment},
    last_nominal_at {moment},
    runs integer NOT NULL,
    waiting integer NOT NULL,
    last_job_id {id},
    last_fired_at {moment},
    pause_reason text NOT NULL DEFAULT '',
    CONSTRAINT runs_not_negative CHECK (runs >= 0 AND waiting >= 0)
);
CREATE INDEX warrener_schedules_due ON warrener_schedules (wake_at, name) WHERE wake_at IS NOT NULL;
CREATE INDEX warrener_schedules_waiting ON warrener_schedules (name)
    WHERE ({strpos}(definition, '"rule":{"kind":"event"') > 0 OR {strpos}(definition, '"rule":{"kind":"after"') > 0);

-- No foreign key: ticks outlive their schedule, and so do declarations.
CREATE TABLE warrener_ticks (
    schedule text NOT NULL,
    nominal_at {moment} NOT NULL,
    status text NOT NULL,
    due_at {moment} NOT NULL,
    decided_at {moment} NOT NULL,
    reason text NOT NULL,
    job_id {id},
    fired_at {moment},
    wake_at {moment},
    request text,
    PRIMARY KEY (schedule, nominal_at),
    CONSTRAINT status_known CHECK (status IN ('fired', 'caught_up', 'coalesced', 'skipped', 'waiting', 'triggered')),
    CONSTRAINT request_until_fired CHECK ((request IS NULL) = (wake_at IS NULL))
);
CREATE INDEX warrener_ticks_unpublished ON warrener_ticks (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX warrener_ticks_waiting ON warrener_ticks (schedule, nominal_at) WHERE status = 'waiting';

CREATE TABLE warrener_schedule_declarations (
    name text NOT NULL,
    definition_hash text NOT NULL,
    job_type text NOT NULL,
    declared_by text NOT NULL,
    declared_at {moment} NOT NULL,
    PRIMARY KEY (name, definition_hash)
);

-- No foreign key: the writers of schedules keep it consistent.
CREATE TABLE warrener_schedule_watches (
    name text NOT NULL PRIMARY KEY,
    pause_after integer,
    success_within {fraction},
    since {moment} NOT NULL,
    check_at {moment} NOT NULL,
    last_success_tick {moment},
    last_success_at {moment},
    CONSTRAINT something_expected CHECK (pause_after IS NOT NULL OR success_within IS NOT NULL)
);
CREATE INDEX warrener_schedule_watches_due ON warrener_schedule_watches (check_at, name);

CREATE TABLE warrener_trigger_bindings (
    exchange text NOT NULL,
    key text NOT NULL,
    PRIMARY KEY (exchange, key)
);

CREATE TABLE warrener_arrivals (
    schedule text NOT NULL,
    event_id {id} NOT NULL,
    occurred_at {moment} NOT NULL,
    received_at {moment} NOT NULL,
    upstream text NOT NULL,
    nominal_at {moment},
    event text,
    PRIMARY KEY (schedule, event_id)
);
CREATE INDEX warrener_arrivals_open ON warrener_arrivals (schedule, occurred_at, event_id) WHERE event IS NOT NULL;
CREATE INDEX warrener_arrivals_received ON warrener_arrivals (received_at);

-- Job types, agents, breakers, the installation and duties.
CREATE TABLE warrener_job_types (
    name text NOT NULL PRIMARY KEY,
    queue text NOT NULL,
    arguments_schema text NOT NULL,
    result_schema text,
    guarantee text NOT NULL,
    policy text NOT NULL,
    description text NOT NULL,
    announced_by text NOT NULL,
    announced_at {moment} NOT NULL,
    CONSTRAINT guarantee_known CHECK (guarantee IN ('idempotent', 'transactional', 'exclusive'))
);

CREATE TABLE warrener_agents (
    agent_id text NOT NULL PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    queues text NOT NULL,
    slots integer NOT NULL,
    running integer NOT NULL,
    draining boolean NOT NULL,
    started_at {moment} NOT NULL,
    last_seen_at {moment} NOT NULL,
    job_types text,
    free_slots text,
    trouble text,
    code_version text,
    CONSTRAINT slots_not_negative CHECK (slots >= 0 AND running >= 0)
);

CREATE TABLE warrener_breakers (
    name text NOT NULL PRIMARY KEY,
    version integer NOT NULL,
    state text NOT NULL,
    manual boolean NOT NULL,
    since {moment} NOT NULL,
    until {moment},
    times_opened integer NOT NULL,
    probes_succeeded integer NOT NULL,
    reason text NOT NULL,
    job_types text NOT NULL,
    policy text NOT NULL,
    CONSTRAINT breaker_state_known CHECK (state IN ('closed', 'open', 'half_open'))
);

-- One row, written by the first service that starts.
CREATE TABLE warrener_installation (
    one {serial} NOT NULL PRIMARY KEY,
    installation_id {id} NOT NULL,
    CONSTRAINT one_installation CHECK (one = 1)
);

-- One row for each duty that was ever claimed.
CREATE TABLE warrener_duties (
    duty text NOT NULL PRIMARY KEY,
    holder text NOT NULL,
    until {moment} NOT NULL
);

-- The audit log and the sessions of the console.
CREATE TABLE warrener_audit (
    record_id {id} NOT NULL PRIMARY KEY,
    recorded_at {moment} NOT NULL,
    actor text NOT NULL,
    role text NOT NULL,
    method text NOT NULL,
    address text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    reason text NOT NULL,
    outcome text NOT NULL,
    sentence text NOT NULL,
    completed_at {moment},
    CONSTRAINT audit_outcome_known CHECK (outcome IN ('requested', 'accepted', 'refused', 'forbidden', 'failed')),
    CONSTRAINT audit_end_known_iff_completed CHECK ((outcome = 'requested') = (completed_at IS NULL))
);
CREATE INDEX warrener_audit_action ON warrener_audit (action, recorded_at, record_id);
CREATE INDEX warrener_audit_actor ON warrener_audit (actor, recorded_at, record_id);
CREATE INDEX warrener_audit_newest ON warrener_audit (recorded_at, record_id);
CREATE INDEX warrener_audit_subject ON warrener_audit (subject, recorded_at, record_id);

CREATE TABLE warrener_sessions (
    session_key text NOT NULL PRIMARY KEY,
    actor text NOT NULL,
    role text NOT NULL,
    method text NOT NULL,
    credential text NOT NULL,
    opened_at {moment} NOT NULL,
    expires_at {moment} NOT NULL
);
CREATE INDEX warrener_sessions_expiry ON warrener_sessions (expires_at);

-- Statistics, deploys and the versions of agents.
-- One row for each series, span of time and version of the code. A series is read by a range of the key.
CREATE TABLE warrener_statistics (
    span integer NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    starts_at {moment} NOT NULL,
    code_version text NOT NULL,
    succeeded integer NOT NULL,
    dead integer NOT NULL,
    cancelled integer NOT NULL,
    expired integer NOT NULL,
    failed_attempts integer NOT NULL,
    lost_attempts integer NOT NULL,
    duration_sum {fraction} NOT NULL,
    duration_max {fraction} NOT NULL,
    durations text NOT NULL,
    queue_time_sum {fraction} NOT NULL,
    queue_time_max {fraction} NOT NULL,
    queue_times text NOT NULL,
    PRIMARY KEY (span, kind, name, starts_at, code_version),
    CONSTRAINT series_kind_known CHECK (kind IN ('all', 'job_type', 'schedule'))
);

CREATE TABLE warrener_statistics_causes (
    span integer NOT NULL,
    job_type text NOT NULL,
    starts_at {moment} NOT NULL,
    fingerprint text NOT NULL,
    jobs integer NOT NULL,
    error_type text NOT NULL,
    message text NOT NULL,
    PRIMARY KEY (span, job_type, starts_at, fingerprint)
);

-- One row: how far jobs are rolled up. It changes with the buckets, in one transaction.
CREATE TABLE warrener_statistics_position (
    one {serial} NOT NULL PRIMARY KEY,
    revision integer NOT NULL,
    finished_at {moment} NOT NULL,
    job_id {id} NOT NULL,
    complete_until {moment} NOT NULL,
    CONSTRAINT one_position CHECK (one = 1)
);

CREATE TABLE warrener_deploys (
    job_type text NOT NULL,
    first_seen_at {moment} NOT NULL,
    code_version text NOT NULL,
    last_seen_at {moment} NOT NULL,
    schema_hash text NOT NULL,
    PRIMARY KEY (job_type, first_seen_at, code_version)
);
CREATE INDEX warrener_deploys_newest ON warrener_deploys (first_seen_at);

CREATE TABLE warrener_agent_versions (
    agent_id text NOT NULL,
    since {moment} NOT NULL,
    code_version text NOT NULL,
    PRIMARY KEY (agent_id, since)
);
CREATE INDEX warrener_agent_versions_since ON warrener_agent_versions (since);
