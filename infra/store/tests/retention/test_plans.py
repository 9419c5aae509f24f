"""Old rows are found and deleted by an index, beside 120,000 young jobs that are over."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg
import pytest
from infra.store.tests.test_plans import COUNTED, FEW_LIVE, FINISHED, MANY_FINISHED, explained, visited

from warrener_contracts.state_machine import JobState
from warrener_store import Store, open_store
from warrener_store.databases.address import SESSION
from warrener_store.retention.prunable_tables import PRUNABLE_TABLES
from warrener_store.retention.rows import JobsBefore, RetentionKind
from warrener_store.statements import statement

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]  # generic in the stubs alone

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
async def empty(postgres_store_url: str) -> "AsyncGenerator[Connection]":
    one = await asyncpg.connect(postgres_store_url, server_settings=dict(SESSION))
    await one.execute("SET plan_cache_mode = force_generic_plan")
    yield one
    await one.close()


@pytest.fixture
async def connection(empty: "Connection") -> "Connection":
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
    connection: "Connection", *, analyzed: bool
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
    connection: "Connection", postgres_store_url: str
) -> None:
    store = open_store(postgres_store_url)
    await store.start()
    assert await _prune(store) == OLD
    counted = {(one.job_type, one.state): one.jobs for one in await store.count_jobs()}
    assert counted["flights.load", JobState.SUCCEEDED] == MANY
    assert await connection.fetchval("SELECT count(*) FROM warrener_jobs") == MANY + 200
    await store.close()


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
    "first_seen_at, "
    "last_seen_at, round, step, failed_tries, delivered, closed_at) "
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
async def test_old_rows_are_found_by_the_index_of_their_list(
    empty: "Connection", kind: RetentionKind
) -> None:
    await empty.execute(ROWS[kind])
    await empty.execute("ANALYZE")
    before: Any = datetime.now(UTC) - timedelta(hours=20)
    parameters = (before, datetime(1970, 1, 1, tzinfo=UTC), NO_KEY.get(kind, ""), PAGE)
    plan = await explained(empty, PRUNABLE_TABLES[kind].page(), parameters)
    assert INDEXES[kind] in plan, plan


async def test_open_incidents_and_old_occurrences_have_an_index(empty: "Connection") -> None:
    await empty.execute(ROWS[RetentionKind.INCIDENTS])
    await empty.execute(ENTRIES)
    await empty.execute("ANALYZE")
    first: Any = (50, datetime(9000, 1, 1, tzinfo=UTC), "")  # the first page: all are behind it
    plan = await explained(empty, statement("postgres", "open_incidents"), first)
    assert "warrener_incidents_open" in plan, plan
    before = datetime.now(UTC) - timedelta(hours=20)
    plan = await explained(empty, statement("postgres", "old_occurrences"), (before, PAGE))
    assert "warrener_incident_occurrences_raised" in plan, plan
