"""A connection to SQLite has a thread and an open file: neither outlives a caller that is cancelled."""

import asyncio
import sqlite3
from pathlib import Path

import aiosqlite
import pytest

from warrener_store.databases.address import SqliteAddress
from warrener_store.databases.pool import ConnectionPool
from warrener_store.databases.sqlite import SqliteDriver


class RecordingDriver(SqliteDriver):
    def __init__(self, path: Path) -> None:
        super().__init__(SqliteAddress(path))
        self.opened: list[sqlite3.Connection] = []

    def _connect(self) -> sqlite3.Connection:
        self.opened.append(super()._connect())
        return self.opened[-1]


def is_closed(connection: sqlite3.Connection) -> bool:
    try:
        _ = connection.in_transaction
    except sqlite3.ProgrammingError:
        return True
    return False


@pytest.fixture
def driver(tmp_path: Path) -> RecordingDriver:
    return RecordingDriver(tmp_path / "store.db")


async def test_a_connection_is_in_wal_mode_and_checks_foreign_keys(driver: RecordingDriver) -> None:
    connection = await driver.open()
    for setting, value in (("journal_mode", "wal"), ("foreign_keys", 1), ("synchronous", 2)):
        assert [tuple(row) for row in await connection.execute_fetchall(f"PRAGMA {setting}")] == [(value,)]
    await driver.close(connection)
    await driver.close(connection)
    assert is_closed(driver.opened[0])


async def test_one_that_is_opened_for_a_cancelled_caller_is_closed(driver: RecordingDriver) -> None:
    pool = ConnectionPool(driver, 1)
    borrower = asyncio.create_task(pool.check_out())
    await asyncio.sleep(0)
    borrower.cancel()
    with pytest.raises(asyncio.CancelledError):
        await borrower
    assert all(is_closed(connection) for connection in driver.opened)
    async with pool.acquire() as connection:  # its place is free again
        assert not driver.is_broken(connection)
    await pool.close()


async def test_a_file_that_cannot_be_opened_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_text("a diary" * 1000)
    pool = ConnectionPool(RecordingDriver(tmp_path / "store.db"), 1)
    for _ in range(2):
        with pytest.raises(sqlite3.DatabaseError, match="not a database"):
            await pool.check_out()
    await pool.close()


async def test_a_query_of_a_cancelled_caller_is_interrupted(driver: RecordingDriver) -> None:
    pool = ConnectionPool(driver, 1)
    loop, started = asyncio.get_running_loop(), asyncio.Event()

    async def count_to_infinity() -> None:
        async with pool.acquire() as connection:
            # aiosqlite does not say what the function returns
            await connection.create_function(  # pyright: ignore[reportUnknownMemberType]
                "start", 0, lambda: loop.call_soon_threadsafe(started.set) and 1
            )
            await connection.execute_fetchall(
                "WITH RECURSIVE n(i) AS (SELECT start() UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
            )

    counting = asyncio.create_task(count_to_infinity())
    await started.wait()
    counting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await counting
    assert is_closed(driver.opened[0])
    await pool.close()


async def test_a_transaction_of_a_cancelled_caller_is_rolled_back(driver: RecordingDriver) -> None:
    pool = ConnectionPool(driver, 2)
    begun = asyncio.Event()

    async def write() -> None:
        async with pool.acquire() as connection:
            await connection.execute("CREATE TABLE notes (note TEXT)")
            await connection.execute("BEGIN IMMEDIATE")
            await connection.execute("INSERT INTO notes VALUES ('half')")
            begun.set()
            await asyncio.Event().wait()

    writer = asyncio.create_task(write())
    await begun.wait()
    writer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writer
    async with pool.acquire() as connection:
        await connection.execute("BEGIN IMMEDIATE")  # the lock is free
        assert list(await connection.execute_fetchall("SELECT * FROM notes")) == []
        await connection.rollback()
    await pool.close()


async def test_one_that_is_still_in_a_transaction_is_not_lent_again(driver: RecordingDriver) -> None:
    pool = ConnectionPool(driver, 1)
    async with pool.acquire() as connection:
        await connection.execute("BEGIN IMMEDIATE")
    async with pool.acquire() as connection:
        await connection.execute("BEGIN IMMEDIATE")
        await connection.rollback()
    await pool.close()
    assert all(is_closed(connection) for connection in driver.opened)
    assert len(driver.opened) == 2


async def test_one_that_did_not_answer_in_time_is_closed_by_its_thread(driver: RecordingDriver) -> None:
    pool = ConnectionPool(driver, 1)
    lent: list[aiosqlite.Connection] = []

    async def wait_in_vain() -> None:
        async with pool.acquire() as connection:
            lent.append(connection)
            raise TimeoutError

    with pytest.raises(TimeoutError):
        await wait_in_vain()
    await asyncio.to_thread(lent[0]._thread.join)
    assert is_closed(driver.opened[0])
    await pool.close()
