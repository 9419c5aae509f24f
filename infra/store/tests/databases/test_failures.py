"""The store names the failure of its database, and goes on when the database is back."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import aiosqlite
import asyncpg
import pytest
from asyncpg import exceptions
from tests.faults.full_disk import FULL_DISK
from tests.servers.postgres import PrivatePostgres
from tests.store_access import opened_store
from tests.store_rows import changed, queued_job, succeeded

from warrener_contracts.postgres_address import PostgresAddress
from warrener_store import StateStore, StoreError, StoreNotMigrated, StoreRefused, StoreUnavailable, migrate
from warrener_store.databases import session
from warrener_store.databases.address import SqliteAddress, parse_address
from warrener_store.databases.failures import Conflict, translate_errors
from warrener_store.errors import StoreFull
from warrener_store.jobs.rows import JobFilter
from warrener_store.postgres import PostgresStore
from warrener_store.sqlite import SqliteStore


async def works(call: Callable[[], Awaitable[None]]) -> None:
    """Retry until the store answers, as every caller does: a busy machine may not answer in half a second."""
    async with asyncio.timeout(60):
        while True:
            with suppress(StoreUnavailable):
                return await call()


class TestPostgresGoesAway:
    async def test_a_killed_server_is_unavailable_and_then_back_with_everything(
        self, own_postgres: PrivatePostgres
    ) -> None:
        url = own_postgres.add_database("store")
        await migrate(url)
        row = queued_job()
        async with opened_store(url) as store:
            await store.insert_jobs([row])
            own_postgres.kill()
            calls = (store.ping(), store.insert_jobs([queued_job()]), store.save_jobs([succeeded(row)]))
            for call in calls:
                with pytest.raises(StoreUnavailable, match="tried again"):
                    await call
            own_postgres.start()
            await works(store.ping)
            assert await store.save_jobs([succeeded(row)]) == {row.job_id}

    async def test_a_silent_server_is_unavailable_in_time(self, own_postgres: PrivatePostgres) -> None:
        url = own_postgres.add_database("store")
        await migrate(url)
        address = parse_address(url)
        assert isinstance(address, PostgresAddress)
        store = PostgresStore(address, response_timeout=0.5)
        await works(store.start)
        own_postgres.pause()
        try:
            with pytest.raises(StoreUnavailable):
                await store.ping()
        finally:
            own_postgres.resume()
        await works(store.ping)
        await store.close()

    async def test_7_a_server_that_is_read_only_does_not_answer_a_ping(self, postgres_url: str) -> None:
        await migrate(postgres_url)
        connection = await asyncpg.connect(postgres_url)
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        await connection.close()
        await refuses_to_start(postgres_url, StoreUnavailable, "is a standby, or read-only; name the primary")
        async with opened_store(f"{postgres_url}?target_session_attrs=any") as store:
            with pytest.raises(StoreUnavailable, match="read-only"):
                await store.ping()
            with pytest.raises(StoreUnavailable):
                await store.insert_jobs([queued_job()])

    async def test_23_a_full_disk_is_named_by_the_ping_until_writes_are_tried_again(
        self, postgres_store_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        connection = await asyncpg.connect(postgres_store_url)
        await connection.execute(FULL_DISK)
        async with opened_store(postgres_store_url) as store:
            await store.ping()
            with pytest.raises(StoreFull, match="its disk is full: could not extend file"):
                await store.insert_jobs([queued_job()])
            with pytest.raises(StoreFull, match="No space left on device"):
                await store.ping()
            await connection.execute("DROP FUNCTION disk_is_full CASCADE")
            await connection.close()
            monkeypatch.setattr(session, "_FULL_PERIOD", 0.0)
            await store.ping()
            await store.insert_jobs([queued_job()])

    async def test_a_server_that_is_not_there_is_unavailable(self, postgres_url: str) -> None:
        url = postgres_url.rsplit("/", 1)[0] + "/no_such_database"
        await refuses_to_start(url, StoreUnavailable, "no_such_database")


async def refuses_to_start(url: str, error: type[StoreError], message: str) -> None:
    with pytest.raises(error, match=message):
        async with opened_store(url):
            pass


class TestSqliteFails:
    async def test_a_lock_that_lasts_too_long_is_unavailable_and_then_free(
        self, sqlite_store_url: str
    ) -> None:
        address = parse_address(sqlite_store_url)
        assert isinstance(address, SqliteAddress)
        store = SqliteStore(address, busy_seconds=0.05)
        await store.start()
        other = sqlite3.connect(address.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            await store.insert_jobs([queued_job()])
        with pytest.raises(StoreUnavailable, match="locked"):
            await store.ping()
        assert await store.list_jobs(JobFilter()) == []  # readers do not wait
        other.execute("COMMIT")
        other.close()
        assert (await store.insert_jobs([queued_job()]))[0].new
        await store.close()

    async def test_a_shorter_lock_is_waited_for(self, sqlite_store_url: str) -> None:
        other = sqlite3.connect(sqlite_store_url.removeprefix("sqlite:///"), isolation_level=None)
        async with opened_store(sqlite_store_url) as store:
            other.execute("BEGIN IMMEDIATE")
            insert = asyncio.create_task(store.insert_jobs([queued_job()]))
            assert await store.list_jobs(JobFilter()) == []
            assert not insert.done()
            other.execute("COMMIT")
            other.close()
            assert (await insert)[0].new

    @pytest.mark.parametrize(
        ("setting", "mend", "message"),
        [
            ("PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000", "full"),
            ("PRAGMA query_only = ON", "PRAGMA query_only = OFF", "readonly"),
        ],
    )
    async def test_a_full_disk_or_a_read_only_file_is_unavailable_and_then_mended(
        self, sqlite_store_url: str, setting: str, mend: str, message: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        address = parse_address(sqlite_store_url)
        assert isinstance(address, SqliteAddress)
        store = SqliteStore(address)
        settings = [setting]
        check_out = store._pool.check_out

        async def disturbed() -> aiosqlite.Connection:
            connection = await check_out()
            await connection.execute(settings[0])
            return connection

        monkeypatch.setattr(store._pool, "check_out", disturbed)
        await store.start()
        row = queued_job(arguments={"text": "x" * 100_000})
        with pytest.raises(StoreUnavailable, match=message):
            await store.insert_jobs([queued_job(), row])
        assert await store.list_jobs(JobFilter()) == []
        settings[0] = mend
        assert (await store.insert_jobs([row]))[0].new
        assert [count.jobs for count in await store.count_jobs()] == [1]
        await store.close()

    async def test_a_file_that_is_no_database_is_reported(self, tmp_path: Path) -> None:
        (tmp_path / "store.db").write_text("a diary" * 1000)
        await refuses_to_start(f"sqlite:///{tmp_path}/store.db", StoreUnavailable, "not a database")

    async def test_a_missing_file_is_not_made(self, tmp_path: Path) -> None:
        await refuses_to_start(f"sqlite:///{tmp_path}/store.db", StoreNotMigrated, "no such file")
        assert not (tmp_path / "store.db").exists()


async def test_several_processes_write_one_store_and_none_is_turned_away(url: str) -> None:
    async def work(store: StateStore) -> int:
        saved = 0
        for _ in range(10):
            batch = [queued_job() for _ in range(10)]
            await store.insert_jobs(batch)
            saved += len(await store.save_jobs([succeeded(row) for row in batch]))
        return saved

    async with AsyncExitStack() as opened:  # to a database, three stores are as good as three processes
        stores = [await opened.enter_async_context(opened_store(url)) for _ in range(3)]
        assert await asyncio.gather(*map(work, stores)) == [100, 100, 100]
        assert [count.jobs for count in await stores[0].count_jobs()] == [300]


async def test_a_cancelled_operation_leaves_a_store_that_works(store: StateStore) -> None:
    rows = [queued_job() for _ in range(50)]
    await store.insert_jobs(rows)
    for turns in range(12):
        known = await store.jobs_by_id([row.job_id for row in rows])
        saves = [changed(row, failures=row.failures + 1) for row in known.values()]
        task = asyncio.create_task(store.save_jobs(saves))
        for _ in range(turns):
            await store.ping()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    after = await store.jobs_by_id([row.job_id for row in rows])
    assert len({row.failures for row in after.values()}) == 1  # each batch as a whole, or not at all
    assert len(await store.save_jobs([succeeded(row) for row in after.values()])) == len(rows)
    assert [count.jobs for count in await store.count_jobs()] == [len(rows)]


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (exceptions.DiskFullError("No space left on device"), StoreUnavailable),
        (exceptions.ReadOnlySQLTransactionError("cannot execute INSERT"), StoreUnavailable),
        (exceptions.AdminShutdownError("terminating connection"), StoreUnavailable),
        (exceptions.TooManyConnectionsError("sorry, too many clients already"), StoreUnavailable),
        (exceptions.DeadlockDetectedError("deadlock detected"), Conflict),
        (exceptions.CheckViolationError("violates check constraint"), StoreRefused),
        (exceptions.UntranslatableCharacterError("\\u0000 cannot be converted"), StoreRefused),
        (exceptions.PostgresSyntaxError("syntax error"), StoreRefused),
        (exceptions.UndefinedTableError("relation does not exist"), StoreNotMigrated),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_kind_of_error_has_one_meaning(error: Exception, meaning: type[StoreError]) -> None:
    with pytest.raises(meaning), translate_errors("postgresql://here/store"):
        raise error
