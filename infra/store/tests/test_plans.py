"""Hot statements go by a primary key or by an index without finished jobs, and never scan all jobs."""

import re
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from infra.store.tests.raw_sql import connect_sqlite
from tests.store_rows import NOON, after

from warrener_contracts.state_machine import JobState
from warrener_store import migrate
from warrener_store.audit.rows import AuditFilter, AuditPosition
from warrener_store.audit.store import audit_list_query
from warrener_store.databases.address import SESSION
from warrener_store.jobs.list_query import JobPosition, job_list_query
from warrener_store.jobs.rows import JobFilter
from warrener_store.mapping import POSTGRES_CODEC, SQLITE_CODEC
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
async def postgres_connection(postgres_url: str) -> "AsyncGenerator[Postgres]":
    await migrate(postgres_url)
    connection = await asyncpg.connect(postgres_url, server_settings=dict(SESSION))
    await connection.execute(MANY_FINISHED)
    await connection.execute(FEW_LIVE)
    await connection.execute(CHILD_JOBS)
    await connection.execute(COUNTED)
    await connection.execute("ANALYZE")
    yield connection
    await connection.close()


@pytest.fixture
def sqlite(sqlite_store_url: str) -> Generator[Connection]:
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
    "running_among": ([uuid4() for _ in range(50)],),
    "running_of": (["a1", "a2"],),
    "running_owners": (),
    "children_of": ([PARENT, uuid4()],),
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
    "derived_sources": (100,),
    "ended_jobs": (NOON, uuid4(), after(60), 1000),
    "runs_of": (["hourly", "daily"], 20, NOON),
}


async def test_postgres_walks_through_no_finished_jobs(
    postgres_connection: "Postgres", subtests: pytest.Subtests
) -> None:
    recent_ends = {"recent_ends": (datetime.now(UTC) - timedelta(minutes=3),)}
    for name, parameters in (HOT | recent_ends).items():
        with subtests.test(name):
            plan = await explained(postgres_connection, statement("postgres", name), parameters)
            assert "Seq Scan on warrener_jobs" not in plan, plan
    text = statement("postgres", "save_jobs")
    kinds = dict(re.findall(r"\$(\d+)::([a-z ]+)\[\]", text))
    samples = {"uuid": uuid4(), "integer": 1, "text": "x", "timestamptz": NOON, "double precision": 0.5}
    plan = await explained(
        postgres_connection, text, [[samples[kinds[number]]] * 100 for number in sorted(kinds, key=int)]
    )
    assert "Seq Scan on warrener_jobs" not in plan, plan


@pytest.mark.parametrize(
    ("name", "writes"),
    [("save_jobs", "TID Cond: (ctid = found.place)"), ("succeed_jobs", "TID Cond: (ctid = found.place)")],
)
async def test_postgres_looks_each_row_up_by_its_key_while_the_tables_are_empty_too(
    postgres_url: str, name: str, writes: str
) -> None:
    """A plan that was made for empty tables is cached while they grow."""
    plan = await cached_plan(postgres_url, name)
    assert "Index Cond: (job_id = batch.job_id)" in plan, plan
    assert writes in plan, plan


@pytest.mark.parametrize("name", ["save_jobs", "succeed_jobs"])
async def test_postgres_compares_the_version_of_the_row_that_it_writes(postgres_url: str, name: str) -> None:
    """After a wait for the row PostgreSQL checks the version again, of the new row; not every release checks
    the place again."""
    plan = await cached_plan(postgres_url, name)
    assert re.search(r"Filter: .*\bversion\b", plan), plan


async def cached_plan(postgres_url: str, name: str) -> str:
    """The plan of a prepared statement, made while the tables are empty."""
    await migrate(postgres_url)
    connection = await asyncpg.connect(postgres_url, server_settings=dict(SESSION))
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    await connection.execute(f"PREPARE one AS {statement('postgres', name)}")
    nothing = ", ".join(["NULL"] * len(set(re.findall(r"\$\d+", statement("postgres", name)))))
    plan = await explained(connection, f"EXECUTE one ({nothing})", ())
    await connection.close()
    return plan


async def test_postgres_jumps_from_owner_to_owner(postgres_connection: "Postgres") -> None:
    plan = await explained(postgres_connection, statement("postgres", "running_owners"), ())
    assert "warrener_jobs_running" in plan, plan
    assert "Limit" in plan, plan


async def test_postgres_claims_by_the_index_of_what_is_due(postgres_connection: "Postgres") -> None:
    parameters = (["waiting"], NOON, after(10), 100)
    plan = await explained(postgres_connection, statement("postgres", "claim_due"), parameters)
    assert "warrener_jobs_due" in plan, plan


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


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("jobs_by_id", "sqlite_autoindex_warrener_jobs_1"),
        ("jobs_by_id_or_key", "warrener_jobs_key"),
        ("saveable_jobs", "sqlite_autoindex_warrener_jobs_1"),
        ("save_job", "sqlite_autoindex_warrener_jobs_1"),
        ("succeedable_jobs", "sqlite_autoindex_warrener_jobs_1"),
        ("succeed_job", "sqlite_autoindex_warrener_jobs_1"),
        ("due_jobs", "warrener_jobs_due"),
        ("overdue_jobs", "warrener_jobs_deadline"),
        ("claim_due", "sqlite_autoindex_warrener_jobs_1"),
        ("claim_overdue", "sqlite_autoindex_warrener_jobs_1"),
        ("claim_lost", "sqlite_autoindex_warrener_jobs_1"),
        ("losable_jobs", "sqlite_autoindex_warrener_jobs_1"),
        ("running_among", "sqlite_autoindex_warrener_jobs_1"),
        ("running_of", "warrener_jobs_running"),
        ("running_owners", "warrener_jobs_running"),
        ("watchers_of", "sqlite_autoindex_warrener_jobs_1"),
        ("children_of", "warrener_jobs_parent"),
        ("cancelled_among", "sqlite_autoindex_warrener_cancelled_trees_1"),
        ("job_ids_between", "sqlite_autoindex_warrener_jobs_1"),
        ("job_ids_by_end", "warrener_jobs_end"),
        ("derived_sources", "warrener_jobs_source"),
        ("ended_jobs", "warrener_jobs_ended"),
        ("recent_ends", "warrener_jobs_ended"),
        ("series", "sqlite_autoindex_warrener_statistics_1"),
        ("causes", "sqlite_autoindex_warrener_statistics_causes_1"),
        ("checkpoints_of", "sqlite_autoindex_warrener_checkpoints_1"),
        ("incidents_by_fingerprint", "sqlite_autoindex_warrener_incidents_1"),
        ("waiting_schedules", "warrener_schedules_waiting"),
        ("release_keys", "sqlite_autoindex_warrener_jobs_1"),
        ("due_incidents", "warrener_incidents_due"),
        ("due_watches", "warrener_schedule_watches_due"),
        ("newest_runs", "sqlite_autoindex_warrener_ticks_1"),
        ("ticked_schedules", "sqlite_autoindex_warrener_ticks_1"),
        ("old_ticks", "sqlite_autoindex_warrener_ticks_1"),
        ("runs_of", "sqlite_autoindex_warrener_ticks_1"),
        ("list_schedules", "sqlite_autoindex_warrener_schedules_1"),
        ("incidents", "warrener_incidents_newest"),
        ("open_incidents", "warrener_incidents_open"),
        ("lost_attempts", "warrener_attempts_lost"),
    ],
)
def test_sqlite_goes_by_the_index_that_was_made_for_it(sqlite: Connection, name: str, index: str) -> None:
    text = statement("sqlite", name)
    plan = planned(sqlite, text, [None] * max(map(int, re.findall(r"[?$](\d+)", text)), default=0))
    assert index in plan, plan
    assert not re.search(r"SCAN (job|warrener_jobs)\b", plan), plan


def test_sqlite_lists_a_page_in_the_order_of_an_index(sqlite: Connection, subtests: pytest.Subtests) -> None:
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
    sqlite: Connection, which: AuditFilter, index: str, after: AuditPosition | None
) -> None:
    plan = planned(sqlite, *audit_list_query(which, 50, after, SQLITE_CODEC))
    assert f"USING INDEX {index}" in plan, plan
    assert "TEMP B-TREE" not in plan, plan


def planned(connection: Connection, text: str, parameters: Sequence[Any]) -> str:
    prepared = positional(text)
    values = tuple(prepared.arrange(parameters))
    return "\n".join(row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {prepared.text}", values))
