"""Hot statements go by a primary key or by an index without finished jobs, and never scan all jobs."""

import re
import sqlite3
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from infra.store.tests.raw_sql import connect_sqlite
from tests.store_access import opened_store
from tests.store_rows import NOON, after

from warrener_contracts.state_machine import JobState
from warrener_store import Store
from warrener_store.audit.rows import AuditFilter, AuditPosition
from warrener_store.audit.store import audit_list_query
from warrener_store.databases.address import SESSION
from warrener_store.jobs.list_query import JobPosition, job_list_query
from warrener_store.jobs.rows import JobFilter
from warrener_store.mapping import POSTGRES_CODEC, SQLITE_CODEC
from warrener_store.retention.prunable_tables import PRUNABLE_TABLES
from warrener_store.retention.rows import JobsBefore, RetentionKind
from warrener_store.statements import positional, statement

if TYPE_CHECKING:
    Postgres = asyncpg.Connection[asyncpg.Record]  # generic in the stubs alone

FINISHED = 20_000

MANY_FINISHED = f"""
INSERT INTO warrener_jobs (
  job_id, job_type, queue, arguments, guarantee, policy, source, requested_at, accepted_at,
  request_hash, version, state, attempt, failures, losses, watchers, finished_at, updated_at)
SELECT gen_random_uuid(), 'flights.load', 'default', '{{}}', 'idempotent', '{{}}', 'test', now(),
  now() - n * interval '1 second', '', 2, 'succeeded', 1, 0, 0, '[]', now(), now()
FROM generate_series(1, {FINISHED}) AS n
"""
FEW_LIVE = (
    MANY_FINISHED.replace("finished_at,", "wake_at, idempotency_key,")
    .replace("now(), now()\nFROM", "now(), gen_random_uuid()::text, now()\nFROM")
    .replace("'succeeded'", "'queued'")
    .replace(str(FINISHED), "200")
)
PARENT = uuid4()
CHILD_JOBS = (
    MANY_FINISHED.replace("job_id,", "job_id, parent_id,")
    .replace("gen_random_uuid()", f"gen_random_uuid(), '{PARENT}'")
    .replace("flights.load", "rare")
    .replace("1 second", "10 minutes")
    .replace(str(FINISHED), "30")
)


@pytest.fixture
async def empty(postgres_store_url: str) -> "AsyncGenerator[Postgres]":
    """A connection to empty tables, which plans a prepared statement once."""
    one = await asyncpg.connect(postgres_store_url, server_settings=dict(SESSION))
    await one.execute("SET plan_cache_mode = force_generic_plan")
    yield one
    await one.close()


@pytest.fixture
async def postgres_connection(empty: "Postgres") -> "Postgres":
    for text in (MANY_FINISHED, FEW_LIVE, CHILD_JOBS, COUNTED, "RESET plan_cache_mode", "ANALYZE"):
        await empty.execute(text)
    return empty


@pytest.fixture
def sqlite(sqlite_store_url: str) -> Generator[sqlite3.Connection]:
    with closing(connect_sqlite(Path(sqlite_store_url.removeprefix("sqlite:///")))) as connection:
        yield connection


COUNTED = """
INSERT INTO warrener_job_counts SELECT job_type, queue, state, 0, count(*) FROM warrener_jobs GROUP BY 1, 2, 3
"""
TYPES = ("flights.load", "rare")
OVER = (JobState.SUCCEEDED, JobState.DEAD)
LISTS = [
    (JobFilter(), "warrener_jobs_listed"),
    (JobFilter(states=OVER), "warrener_jobs_listed"),
    (JobFilter(states=OVER, job_type="flights.load"), "warrener_jobs_listed"),
    (JobFilter(job_type="rare"), "warrener_jobs_listed"),
    (JobFilter(accepted_from=datetime.now(UTC) - timedelta(hours=3)), "warrener_jobs_listed"),
    (JobFilter(accepted_until=datetime.now(UTC) - timedelta(hours=1)), "warrener_jobs_listed"),
    (JobFilter(parent_id=PARENT), "warrener_jobs_parent"),
    (JobFilter(parent_id=PARENT, states=OVER), "warrener_jobs_parent"),
    (JobFilter(parent_id=PARENT, states=OVER, job_type="rare"), "warrener_jobs_parent"),
]
FIRST_AND_NEXT: tuple[JobPosition | None, ...] = (None, (datetime.now(UTC) - timedelta(hours=2), uuid4()))


HOT = {
    "jobs_by_id": ([uuid4() for _ in range(100)],),
    "jobs_by_id_or_key": ([uuid4() for _ in range(100)], [str(n) for n in range(100)]),
    "claim_due": (["queued", "running", "retrying"], NOON, after(10), 100),
    "claim_deadlines": (NOON, after(10), 100),
    "claim_lost": ([uuid4() for _ in range(50)], NOON, after(10)),
    "count_cancel_marks": ("job.unknown", 1000),
    "running_among": ([uuid4() for _ in range(50)],),
    "running_of": (["a1", "a2"],),
    "running_owners": (),
    "failed_attempts": ([uuid4()] * 50,),
    "children_of": ([PARENT, uuid4()], uuid4(), 5000),
    "open_children": (PARENT, uuid4(), 5000),
    "failed_members": (PARENT, "!/map/x/0/map#1/", 5),
    "claim_watches": (NOON, after(10), 100, 1000),
    "last_success": ("hourly",),
    "queue_heads": (),
    "queued_groups": ("default", NOON, 100),
    "oldest_queued": ("default", NOON, 100),
    "unpublished_jobs": ("default", NOON, 100, uuid4()),
    "mark_unpublished": ([uuid4()] * 50, [1] * 50, [NOON] * 50),
    "add_watchers": ([uuid4()] * 5, ["w"] * 5, 8),
    "job_ids_between": (UUID("01936f2e" + 24 * "0"), UUID("01936f2e" + 24 * "f"), 10),
    "job_ids_by_end": ("456789ab", 10),
    "job_ids_by_key": ("k\x1a:000", "k\x1a:fff", 10),
    "derived_sources": (100,),
    "ended_jobs": (NOON, uuid4(), after(60), 1000),
    "runs_of": (["hourly", "daily"], 20, NOON),
    "wake_suspended": ([uuid4()] * 50, NOON),
    "turns_of": ([uuid4()] * 50,),
    "ended_turns": (uuid4(), 9),
    "drop_ended_turns": (uuid4(), 9),
    "clear_ended_turn": (uuid4(), 9, "{}"),
    "drop_received_signals": (uuid4(), 9, NOON, 1000),
    "keep_receipts": (uuid4(), 9, ["s"] * 50),
    "sent_signals": (uuid4(),),
    "last_turns": ([uuid4()] * 50,),
    "journal_sizes": ([uuid4()] * 50,),
    "signals_of": ([uuid4()] * 50, ["n"] * 50, ["s"] * 50, 10),
    "keep_signals": ([uuid4()] * 5, ["s"] * 5, ["n"] * 5, ["1"] * 5, [NOON] * 5, [1000] * 5),
    "signals_among": ([uuid4()] * 50, ["s"] * 50),
    "late_turns": ([uuid4()] * 50,),
    "child_status": ([uuid4()] * 50,),
    "child_ends": ([uuid4()] * 50, 65_536, 1_000_000),
    "drop_signals": (NOON, 100),
    "keep_waits": ([uuid4()] * 5, ["child"] * 5, [NOON] * 5),
    "drop_waits": ([uuid4()] * 50,),
    "count_waits": ("child", 10_000),
    "held_slots": ([uuid4()] * 50,),
    "slots_of": ("job/t", 5),
    "slots_after": ("job/t", 1, 500),
    "release_slots": ([uuid4()] * 50, [1] * 50),
    "gate_rooms": (["job/t"] * 50,),
    "line_heads": (["job/t"] * 50, 100),
    "gates_from": ("job/t", 50, 10_001),
    "waited_gates": ("job/t", 500),
    "waiter_of": (uuid4(),),
    "place_in_line": ("job/t", NOON, uuid4(), 10_000),
    "remove_waiters": ([uuid4()] * 50, ["job/t"] * 50, [NOON] * 50),
    "wake_waiters": ([uuid4()] * 50, NOON),
    "take_slots": (f'[["{uuid4()}", 1, "job/t", "2026-11-20T12:00:00Z"]]', NOON, True, True),
}


async def test_postgres_walks_through_no_finished_jobs(
    postgres_connection: "Postgres", subtests: pytest.Subtests
) -> None:
    recent_ends = {"recent_ends": (datetime.now(UTC) - timedelta(minutes=3),)}
    for name, parameters in (HOT | recent_ends).items():
        with subtests.test(name):
            plan = await explained(postgres_connection, statement("postgres", name), parameters)
            assert not re.search(
                r"Seq Scan on warrener_(jobs|workflow_turns|workflow_waits|signals|slots|gate_waiters)", plan
            ), plan
            if name == "wake_suspended":
                assert "Index Cond: (job_id = " in plan, plan
            if name == "failed_attempts":
                assert "warrener_attempts_pkey" in plan, plan
            if name == "running_owners":  # jumps from owner to owner
                assert "warrener_jobs_running" in plan, plan
                assert "Limit" in plan, plan
    for state in ("waiting", "suspended"):  # the statistics know no suspended job
        due = [state], datetime.now(UTC), after(10), 100
        plan = await explained(postgres_connection, statement("postgres", "claim_due"), due)
        assert "warrener_jobs_due" in plan, plan
    text = statement("postgres", "save_jobs")
    kinds = dict(re.findall(r"\$(\d+)::([a-z ]+)\[\]", text))
    samples = {"uuid": uuid4(), "integer": 1, "text": "x", "timestamptz": NOON, "double precision": 0.5}
    plan = await explained(
        postgres_connection, text, [[samples[kinds[number]]] * 100 for number in sorted(kinds, key=int)]
    )
    assert "Seq Scan on warrener_jobs" not in plan, plan


@pytest.mark.parametrize("name", ["save_jobs", "succeed_jobs"])
async def test_postgres_looks_each_row_up_by_its_key_while_the_tables_are_empty_too(
    empty: "Postgres", name: str
) -> None:
    """A plan that was made for empty tables is cached while they grow. After a wait for the row PostgreSQL
    checks the version again, of the new row; not every release checks the place again."""
    text = statement("postgres", name)
    await empty.execute(f"PREPARE one AS {text}")
    nothing = ", ".join(["NULL"] * len(set(re.findall(r"\$\d+", text))))
    plan = await explained(empty, f"EXECUTE one ({nothing})", ())
    assert "Index Cond: (job_id = batch.job_id)" in plan, plan
    assert "TID Cond: (ctid = found.place)" in plan, plan
    assert re.search(r"Filter: .*\bversion\b", plan), plan


FIRST_COLUMNS = {
    "slots_job": "job_id",
    "slots_pkey": "gate",
    "gate_waiters_pkey": "job_id",
    "gate_waiters_line": "gate",
}
CLAIMED = f'[["{uuid4()}", 1, "job/t", "2026-11-20T12:00:00Z"]]'


@pytest.mark.parametrize("vacuumed", [False, True])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("renew_slots", (CLAIMED, NOON)),
        ("remove_waiters", ([uuid4()] * 50, ["job/t"] * 50, [NOON] * 50)),
        ("gate_rooms", (["job/t"] * 50,)),
        ("line_heads", (["job/t"] * 50, 100)),
        ("take_slots", (CLAIMED, NOON, True, True)),
    ],
)
async def test_a_plan_of_empty_lines_is_good_for_100000_jobs_before_500_slots(
    empty: "Postgres", name: str, parameters: Sequence[Any], *, vacuumed: bool
) -> None:
    """Nothing is compared with each job of a line, or with each slot that is taken."""
    if vacuumed:
        await empty.execute("VACUUM ANALYZE warrener_slots, warrener_gate_waiters")
    plan = await explained(empty, statement("postgres", name), parameters)
    assert "Seq Scan on warrener_" not in plan, plan
    scans = re.findall(r"Scan (?:using|on) warrener_((?:slots|gate_waiters)_\w+).*\n(.*)", plan)
    assert scans, plan
    for index, condition in scans:
        assert f"Index Cond: ({FIRST_COLUMNS[index]} = " in condition.replace("((", "("), plan


async def test_postgres_reads_ended_jobs_in_the_order_of_their_index(postgres_connection: "Postgres") -> None:
    """One step reads as many jobs as it counts, wherever it stands."""
    await postgres_connection.execute(
        "UPDATE warrener_jobs SET finished_at = accepted_at WHERE finished_at IS NOT NULL"
    )
    await postgres_connection.execute("ANALYZE")
    now = datetime.now(UTC)
    parameters = (now - timedelta(hours=3), uuid4(), now, 100)
    plan = await explained(
        postgres_connection, f"(ANALYZE) {statement('postgres', 'ended_jobs')}", parameters
    )
    assert "warrener_jobs_ended" in plan, plan
    assert 0 < visited(plan) <= 2 * 100, plan


async def test_postgres_lists_a_page_without_reading_all(
    postgres_connection: "Postgres", subtests: pytest.Subtests
) -> None:
    for (which, _), before in product(LISTS, FIRST_AND_NEXT):
        with subtests.test(repr(which), before=before):
            text, parameters = job_list_query(which, before, POSTGRES_CODEC)
            plan = await explained(postgres_connection, f"(ANALYZE) {text}", parameters)
            kinds = len(JobState) * len(TYPES)
            assert 0 < visited(plan) <= 2 * which.limit * kinds, plan  # the ids of each page, and their rows


def visited(plan: str) -> int:
    """The number of rows that the scans read, those that did not match too."""
    scanned = re.findall(r"Scan.* on warrener_jobs.*actual time=\S+ rows=([\d.]+) loops=(\d+)", plan)
    removed = re.findall(r"Rows Removed by \S+: (\d+)", plan)
    return sum(round(float(rows) * int(loops)) for rows, loops in scanned) + sum(map(int, removed))


async def explained(connection: "Postgres", text: str, parameters: Sequence[Any]) -> str:
    rows = await connection.fetch(f"EXPLAIN {text}", *parameters)
    return "\n".join(str(row[0]) for row in rows)


BY_JOB_ID = """
jobs_by_id saveable_jobs save_job succeedable_jobs succeed_job claim_due claim_overdue claim_lost losable_jobs
running_among watchers_of job_ids_between release_keys wake_suspended late_turns child_status child_ends
"""
BY_TICK = "newest_runs ticked_schedules old_ticks runs_of"


@pytest.mark.parametrize(
    ("name", "index"),
    [
        *((name, "sqlite_autoindex_warrener_jobs_1") for name in BY_JOB_ID.split()),
        *((name, "sqlite_autoindex_warrener_ticks_1") for name in BY_TICK.split()),
        ("jobs_by_id_or_key", "warrener_jobs_key"),
        ("due_jobs", "warrener_jobs_due"),
        ("overdue_jobs", "warrener_jobs_deadline"),
        ("running_of", "warrener_jobs_running"),
        ("running_owners", "warrener_jobs_running"),
        ("children_of", "warrener_jobs_parent"),
        ("open_children", "warrener_jobs_parent"),
        ("failed_members", "warrener_jobs_parent"),
        ("cancelled_among", "sqlite_autoindex_warrener_cancelled_trees_1"),
        ("job_ids_by_end", "warrener_jobs_end"),
        ("derived_sources", "warrener_jobs_source"),
        ("ended_jobs", "warrener_jobs_ended"),
        ("recent_ends", "warrener_jobs_ended"),
        ("series", "sqlite_autoindex_warrener_statistics_1"),
        ("causes", "sqlite_autoindex_warrener_statistics_causes_1"),
        ("checkpoints_of", "sqlite_autoindex_warrener_checkpoints_1"),
        ("incidents_by_fingerprint", "sqlite_autoindex_warrener_incidents_1"),
        ("redrives_by_id", "sqlite_autoindex_warrener_redrives_1"),
        ("waiting_schedules", "warrener_schedules_waiting"),
        ("due_incidents", "warrener_incidents_due"),
        ("due_watches", "warrener_schedule_watches_due"),
        ("list_schedules", "sqlite_autoindex_warrener_schedules_1"),
        ("incidents", "warrener_incidents_newest"),
        ("open_incidents", "warrener_incidents_open"),
        ("lost_attempts", "warrener_attempts_lost"),
        ("failed_attempts", "sqlite_autoindex_warrener_attempts_1"),
        ("turns_of", "sqlite_autoindex_warrener_workflow_turns_1"),
        ("ended_turns", "sqlite_autoindex_warrener_workflow_turns_1"),
        ("drop_ended_turns", "sqlite_autoindex_warrener_workflow_turns_1"),
        ("clear_ended_turn", "sqlite_autoindex_warrener_workflow_turns_1"),
        ("drop_received_signals", "sqlite_autoindex_warrener_signals_1"),
        ("keep_receipts", "sqlite_autoindex_warrener_signals_1"),
        ("sent_signals", "sqlite_autoindex_warrener_signals_1"),
        ("last_turns", "sqlite_autoindex_warrener_workflow_turns_1"),
        ("journal_sizes", "sqlite_autoindex_warrener_workflow_turns_1"),
        ("signals_of", "sqlite_autoindex_warrener_signals_1"),
        ("signals_among", "sqlite_autoindex_warrener_signals_1"),
        ("keep_signals", "sqlite_autoindex_warrener_signals_1"),
        ("late_turns", "sqlite_autoindex_warrener_workflow_turns_1"),
        ("drop_signals", "warrener_signals_received"),
        ("drop_waits", "sqlite_autoindex_warrener_workflow_waits_1"),
        ("count_waits", "warrener_workflow_waits_kind"),
    ],
)
def test_sqlite_goes_by_the_index_that_was_made_for_it(
    sqlite: sqlite3.Connection, name: str, index: str
) -> None:
    text = statement("sqlite", name)
    plan = planned(sqlite, text, [None] * max(map(int, re.findall(r"[?$](\d+)", text)), default=0))
    assert index in plan, plan
    assert not re.search(r"SCAN (job|warrener_jobs)\b", plan), plan


def test_sqlite_lists_a_page_in_the_order_of_an_index(
    sqlite: sqlite3.Connection, subtests: pytest.Subtests
) -> None:
    for (which, index), before in product(LISTS, FIRST_AND_NEXT):
        with subtests.test(repr(which), before=before):
            plan = planned(sqlite, *job_list_query(which, before, SQLITE_CODEC))
            assert set(re.findall(r"warrener_jobs_(?!1\b)\w+", plan)) == {index}, plan
            assert not re.search(r"SCAN (job|held|warrener_jobs)\b", plan), plan


@pytest.mark.parametrize(
    ("which", "index"),
    [
        (AuditFilter(), "warrener_audit_newest"),
        (AuditFilter(actor="ada"), "warrener_audit_actor"),
        (AuditFilter(action="job.cancel"), "warrener_audit_action"),
        (AuditFilter(subject="nightly"), "warrener_audit_subject"),
    ],
)
@pytest.mark.parametrize("after", [None, AuditPosition(NOON, UUID(int=1))])
def test_sqlite_lists_records_of_actions_in_the_order_of_an_index(
    sqlite: sqlite3.Connection, which: AuditFilter, index: str, after: AuditPosition | None
) -> None:
    plan = planned(sqlite, *audit_list_query(which, 50, after, SQLITE_CODEC))
    assert f"USING INDEX {index}" in plan, plan
    assert "TEMP B-TREE" not in plan, plan


def planned(connection: sqlite3.Connection, text: str, parameters: Sequence[Any]) -> str:
    prepared = positional(text)
    values = tuple(prepared.arrange(parameters))
    return "\n".join(row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {prepared.text}", values))


MANY = 120_000
OLD = 1_200
YOUNG_JOBS = MANY_FINISHED.replace(str(FINISHED), str(MANY)).replace("1 second", "1 millisecond")
OLD_JOBS = (
    MANY_FINISHED.replace(str(FINISHED), str(OLD))
    .replace("now() - n", "now() - interval '8 days' - n")
    .replace("'[]', now(), now()", "'[]', now() - interval '8 days', now()")
)
BEFORE = datetime.now(UTC) - timedelta(days=7)
WHICH = JobsBefore("flights.load", JobState.SUCCEEDED, BEFORE, BEFORE)
PAGE = 200


@pytest.fixture
async def connection(empty: "Postgres") -> "Postgres":
    """A connection that has planned what it does while the tables were empty, and keeps the plans."""
    for name in ("old_jobs", "delete_jobs"):
        await empty.execute(f"PREPARE {name} AS {statement('postgres', name)}")
        await empty.execute(_executed(name))
    for text in (YOUNG_JOBS, OLD_JOBS, FEW_LIVE, COUNTED):
        await empty.execute(text)
    return empty


def _executed(name: str, ids: str = "'{}'") -> str:
    moment = f"'{BEFORE.isoformat()}'"
    if name == "delete_jobs":
        return f"EXECUTE delete_jobs ({moment}, {moment}, {ids})"
    place = f"'1970-01-01Z', '{UUID(int=0)}', {PAGE}"
    return f"EXECUTE old_jobs ({moment}, {moment}, 'succeeded', 'flights.load', {place})"


@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_page_of_old_jobs_is_found_and_deleted_without_reading_the_others(
    connection: "Postgres", *, analyzed: bool
) -> None:
    if analyzed:
        await connection.execute("ANALYZE")
    plan = await explained(connection, f"(ANALYZE) {_executed('old_jobs')}", ())
    assert "warrener_jobs_listed" in plan, plan
    assert visited(plan) <= 2 * PAGE, plan
    ids = ", ".join(f"'{row[0]}'" for row in await connection.fetch(_executed("old_jobs")))
    plan = await explained(connection, f"(ANALYZE) {_executed('delete_jobs', f'ARRAY[{ids}]::uuid[]')}", ())
    assert "Seq Scan on warrener_jobs" not in plan, plan
    assert visited(plan) <= 3 * PAGE, plan
    left = await connection.fetchval("SELECT count(*) FROM warrener_jobs WHERE finished_at < $1", BEFORE)
    assert left == OLD - PAGE


async def test_all_that_is_old_goes_page_by_page_and_the_counts_are_right(
    connection: "Postgres", postgres_store_url: str
) -> None:
    async with opened_store(postgres_store_url) as store:
        assert await _prune(store) == OLD
        counted = {(one.job_type, one.state): one.jobs for one in await store.count_jobs()}
    assert counted["flights.load", JobState.SUCCEEDED] == MANY
    assert await connection.fetchval("SELECT count(*) FROM warrener_jobs") == MANY + 200


async def _prune(store: Store) -> int:
    gone, after = 0, None
    while True:
        page = await store.retention.old_jobs(WHICH, after, PAGE)
        gone += await store.retention.delete_jobs(WHICH, page.job_ids)
        after = page.after
        if after is None:
            return gone


INDEXES = {
    RetentionKind.PARKED: "warrener_parked_newest",
    RetentionKind.INCIDENTS: "warrener_incidents_newest",
    RetentionKind.AUDIT_RECORDS: "warrener_audit_newest",
}
ROWS = {
    RetentionKind.PARKED: "INSERT INTO warrener_parked (parked_id, queue, reason, detail, body, parked_at) "
    "SELECT 'p' || n, 'q', 'r', 'd', '', now() - n * interval '1 second' "
    "FROM generate_series(1, 100000) AS n",
    RetentionKind.INCIDENTS: "INSERT INTO warrener_incidents (fingerprint, kind, subject, sample, times, "
    "first_seen_at, last_seen_at, round, step, failed_tries, delivered, closed_at) "
    "SELECT 'f' || n, 'k', 's', '{}', 1, now(), now() - n * interval '1 second', 1, 0, 0, '[]', now() "
    "FROM generate_series(1, 100000) AS n",
    RetentionKind.AUDIT_RECORDS: "INSERT INTO warrener_audit (record_id, recorded_at, actor, role, method, "
    "address, action, subject, reason, outcome, sentence) "
    "SELECT gen_random_uuid(), now() - n * interval '1 second', 'a' || n % 50, 'admin', 'token', '', "
    "'c' || n % 20, 's' || n, '', 'requested', '' FROM generate_series(1, 100000) AS n",
}
NO_KEY = {RetentionKind.AUDIT_RECORDS: UUID(int=0)}
ENTRIES = (
    "INSERT INTO warrener_incident_occurrences (fingerprint, occurrence, subject, raised_at, steps_done) "
    "SELECT 'f' || n, 'o', 's', now() - n * interval '1 second', 0 FROM generate_series(1, 100000) AS n"
)


@pytest.mark.parametrize("kind", list(INDEXES))
async def test_old_rows_are_found_by_the_index_of_their_list(empty: "Postgres", kind: RetentionKind) -> None:
    await empty.execute(ROWS[kind])
    await empty.execute("ANALYZE")
    before: Any = datetime.now(UTC) - timedelta(hours=20)
    parameters = (before, datetime(1970, 1, 1, tzinfo=UTC), NO_KEY.get(kind, ""), PAGE)
    plan = await explained(empty, PRUNABLE_TABLES[kind].page(), parameters)
    assert INDEXES[kind] in plan, plan


async def test_open_incidents_and_old_occurrences_have_an_index(empty: "Postgres") -> None:
    await empty.execute(ROWS[RetentionKind.INCIDENTS])
    await empty.execute(ENTRIES)
    await empty.execute("ANALYZE")
    first: Any = (50, datetime(9000, 1, 1, tzinfo=UTC), "")  # the first page: all are behind it
    plan = await explained(empty, statement("postgres", "open_incidents"), first)
    assert "warrener_incidents_open" in plan, plan
    before = datetime.now(UTC) - timedelta(hours=20)
    plan = await explained(empty, statement("postgres", "old_occurrences"), (before, PAGE))
    assert "warrener_incident_occurrences_raised" in plan, plan
