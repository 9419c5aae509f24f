"""The pool lends few connections, the warm one first, and none that is broken or busy.

One to SQLite has a thread and an open file: neither outlives a caller that is cancelled."""

import asyncio
import sqlite3
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import aiosqlite
import pytest

from warrener_store.databases.address import SqliteAddress
from warrener_store.databases.pool import IDLE_CHECK_AFTER, ConnectionPool
from warrener_store.databases.sqlite import SqliteDriver


@dataclass(eq=False)
class FakeConnection:
    """A connection that a test can cut or silence."""

    number: int
    cut: bool = False
    silent: bool = False
    closed: bool = False


@dataclass
class FakeDriver:
    """A driver whose database is in this process; closing a connection waits for `may_close`."""

    lines: list[FakeConnection] = field(default_factory=list[FakeConnection])
    checked_numbers: list[int] = field(default_factory=list[int])
    refuses: bool = False
    may_close: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.may_close.set()

    async def open(self) -> FakeConnection:
        if self.refuses:
            raise ConnectionRefusedError("nobody there")
        self.lines.append(FakeConnection(len(self.lines)))
        return self.lines[-1]

    def is_broken(self, connection: FakeConnection) -> bool:
        return connection.cut

    async def is_alive(self, connection: FakeConnection) -> bool:
        self.checked_numbers.append(connection.number)
        return not connection.silent

    def abort(self, connection: FakeConnection) -> None:
        connection.closed = True

    async def close(self, connection: FakeConnection) -> None:
        await self.may_close.wait()
        connection.closed = True


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


async def several(pool: ConnectionPool[FakeConnection], count: int) -> None:
    """Borrow so many at once, and return all."""
    loans = [pool.acquire() for _ in range(count)]
    for loan in loans:
        await loan.__aenter__()
    for loan in loans:
        await loan.__aexit__(None, None, None)


async def test_the_one_given_back_last_is_lent_first(driver: FakeDriver) -> None:
    pool = ConnectionPool(driver, 3)
    await several(pool, 3)
    async with pool.acquire() as line, pool.acquire() as other:
        assert (line.number, other.number) == (2, 1)
    assert len(driver.lines) == 3
    await pool.close()
    assert all(line.closed for line in driver.lines)


async def test_who_comes_when_all_are_lent_waits_for_one(driver: FakeDriver) -> None:
    pool = ConnectionPool(driver, 1)
    async with pool.acquire() as first:
        waiting = asyncio.create_task(pool.check_out())
        await asyncio.sleep(0)
        assert not waiting.done()
    assert await waiting is first
    await pool.check_in(first, interrupted=False)
    await pool.close()


async def test_who_waits_too_long_or_is_refused_takes_no_place_and_leaves_the_connection_in_use(
    driver: FakeDriver,
) -> None:
    pool = ConnectionPool(driver, 1, max_wait=0)
    async with pool.acquire():
        with pytest.raises(TimeoutError, match="no connection became free within 0 s"):
            await pool.check_out()
    with pytest.raises(ValueError, match="refused"):
        async with pool.acquire():
            raise ValueError("refused")
    async with pool.acquire() as line:
        assert line.number == 0
    await pool.close()


@pytest.mark.parametrize("reason", [asyncio.CancelledError, TimeoutError])
async def test_one_that_was_interrupted_is_closed_before_its_borrower_goes_on(
    driver: FakeDriver, reason: type[BaseException]
) -> None:
    pool = ConnectionPool(driver, 1)
    with pytest.raises(reason):
        async with pool.acquire():
            raise reason
    assert driver.lines[0].closed
    async with pool.acquire() as another:
        assert another.number == 1
    await pool.close()


async def test_one_that_is_silent_is_closed_without_waiting_and_so_are_the_idle_ones(
    driver: FakeDriver,
) -> None:
    pool = ConnectionPool(driver, 3)
    await several(pool, 3)
    driver.may_close.clear()  # nobody says good-bye to a silent one
    with pytest.raises(TimeoutError):
        async with pool.acquire():
            raise TimeoutError
    assert driver.lines[2].closed
    async with pool.acquire() as another:
        assert another.number == 3
    driver.may_close.set()
    await pool.close()
    assert all(line.closed for line in driver.lines)


async def test_who_is_interrupted_again_does_not_stop_the_closing(driver: FakeDriver) -> None:
    driver.may_close.clear()
    pool = ConnectionPool(driver, 1)
    entered = asyncio.Event()

    async def borrow() -> None:
        async with pool.acquire():
            entered.set()
            await asyncio.Event().wait()

    borrower = asyncio.create_task(borrow())
    await entered.wait()
    borrower.cancel()
    await asyncio.sleep(0)
    borrower.cancel()
    with pytest.raises(asyncio.CancelledError):
        await borrower
    driver.may_close.set()
    await pool.close()
    assert driver.lines[0].closed


@pytest.mark.parametrize("lent", [False, True], ids=["while it is idle", "while it is lent"])
async def test_one_that_breaks_is_not_lent_again_and_takes_the_idle_ones_with_it(
    driver: FakeDriver, *, lent: bool
) -> None:
    pool = ConnectionPool(driver, 3)
    await several(pool, 3)
    async with AsyncExitStack() as loan:
        line = await loan.enter_async_context(pool.acquire()) if lent else driver.lines[2]
        line.cut = True
    async with pool.acquire() as another:
        assert another.number == 3
    await pool.close()
    assert all(line.closed for line in driver.lines)


async def test_one_that_was_idle_for_long_is_checked_first_and_replaced_where_it_is_silent(
    driver: FakeDriver,
) -> None:
    now = [0.0]
    pool = ConnectionPool(driver, 2, clock=lambda: now[0])
    await several(pool, 2)
    async with pool.acquire():
        assert driver.checked_numbers == []
    now[0] += IDLE_CHECK_AFTER
    driver.lines[1].silent = True
    async with pool.acquire() as line:
        assert line.number == 0
    assert driver.checked_numbers == [1, 0]
    await pool.close()


async def test_a_database_that_refuses_costs_no_place(driver: FakeDriver) -> None:
    pool = ConnectionPool(driver, 1)
    driver.refuses = True
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            await pool.check_out()
    driver.refuses = False
    async with pool.acquire() as line:
        assert line.number == 0
    await pool.close()
    await pool.close()


class RefusedWrite(Exception):
    """What a driver raises for a write that a standby refuses."""

    sqlstate = "25006"


async def test_no_connection_to_a_standby_is_lent_again(driver: FakeDriver) -> None:
    """Those that are lent while one of them finds it out are closed when they are returned."""
    pool = ConnectionPool(driver, 3)
    await several(pool, 3)
    async with pool.acquire() as still_lent:
        with pytest.raises(RefusedWrite):
            async with pool.acquire():
                raise RefusedWrite
    await pool.close()
    assert still_lent.closed
    assert [line.closed for line in driver.lines] == [True] * 3
    async with pool.acquire() as fresh:
        assert fresh.number == 3


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
def sqlite(tmp_path: Path) -> RecordingDriver:
    return RecordingDriver(tmp_path / "store.db")


async def test_a_connection_is_in_wal_mode_and_checks_foreign_keys(sqlite: RecordingDriver) -> None:
    connection = await sqlite.open()
    for setting, value in (("journal_mode", "wal"), ("foreign_keys", 1), ("synchronous", 2)):
        assert [tuple(row) for row in await connection.execute_fetchall(f"PRAGMA {setting}")] == [(value,)]
    await sqlite.close(connection)
    await sqlite.close(connection)
    assert is_closed(sqlite.opened[0])


async def test_one_that_is_opened_for_a_cancelled_caller_is_closed(sqlite: RecordingDriver) -> None:
    pool = ConnectionPool(sqlite, 1)
    borrower = asyncio.create_task(pool.check_out())
    await asyncio.sleep(0)
    borrower.cancel()
    with pytest.raises(asyncio.CancelledError):
        await borrower
    assert all(is_closed(connection) for connection in sqlite.opened)
    async with pool.acquire() as connection:  # its place is free again
        assert not sqlite.is_broken(connection)
    await pool.close()


async def test_a_file_that_cannot_be_opened_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_text("a diary" * 1000)
    pool = ConnectionPool(RecordingDriver(tmp_path / "store.db"), 1)
    for _ in range(2):
        with pytest.raises(sqlite3.DatabaseError, match="not a database"):
            await pool.check_out()
    await pool.close()


async def test_a_query_of_a_cancelled_caller_is_interrupted(sqlite: RecordingDriver) -> None:
    pool = ConnectionPool(sqlite, 1)
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
    assert is_closed(sqlite.opened[0])
    await pool.close()


async def test_a_transaction_of_a_cancelled_caller_is_rolled_back(sqlite: RecordingDriver) -> None:
    pool = ConnectionPool(sqlite, 2)
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


async def test_one_that_is_still_in_a_transaction_is_not_lent_again(sqlite: RecordingDriver) -> None:
    pool = ConnectionPool(sqlite, 1)
    async with pool.acquire() as connection:
        await connection.execute("BEGIN IMMEDIATE")
    async with pool.acquire() as connection:
        await connection.execute("BEGIN IMMEDIATE")
        await connection.rollback()
    await pool.close()
    assert all(is_closed(connection) for connection in sqlite.opened)
    assert len(sqlite.opened) == 2


async def test_one_that_did_not_answer_in_time_is_closed_by_its_thread(sqlite: RecordingDriver) -> None:
    pool = ConnectionPool(sqlite, 1)
    lent: list[aiosqlite.Connection] = []

    async def wait_in_vain() -> None:
        async with pool.acquire() as connection:
            lent.append(connection)
            raise TimeoutError

    with pytest.raises(TimeoutError):
        await wait_in_vain()
    await asyncio.to_thread(lent[0]._thread.join)
    assert is_closed(sqlite.opened[0])
    await pool.close()
