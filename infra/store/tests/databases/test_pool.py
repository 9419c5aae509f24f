"""The pool lends few connections, the warm one first, and none that is broken or busy."""

import asyncio
from dataclasses import dataclass, field

import pytest

from warrener_store.databases.pool import IDLE_CHECK_AFTER, ConnectionPool


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


class FakeClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


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


async def test_who_waits_too_long_for_one_is_refused_and_takes_no_place(driver: FakeDriver) -> None:
    pool = ConnectionPool(driver, 1, max_wait=0)
    async with pool.acquire():
        with pytest.raises(TimeoutError, match="no connection became free within 0 s"):
            await pool.check_out()
    async with pool.acquire() as line:
        assert line.number == 0
    await pool.close()


async def test_an_error_of_the_statement_leaves_the_connection_in_use(driver: FakeDriver) -> None:
    pool = ConnectionPool(driver, 1)
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


async def test_a_broken_one_is_not_lent_and_takes_the_idle_ones_with_it(driver: FakeDriver) -> None:
    pool = ConnectionPool(driver, 3)
    await several(pool, 3)
    driver.lines[2].cut = True
    async with pool.acquire() as line:
        assert line.number == 3
    await pool.close()
    assert all(line.closed for line in driver.lines)


async def test_one_that_breaks_while_it_is_lent_takes_the_idle_ones_with_it(driver: FakeDriver) -> None:
    pool = ConnectionPool(driver, 3)
    await several(pool, 3)
    async with pool.acquire() as line:
        line.cut = True
    async with pool.acquire() as line:
        assert line.number == 3
    await pool.close()


async def test_one_that_was_idle_for_long_is_checked_first_and_replaced_where_it_is_silent(
    driver: FakeDriver,
) -> None:
    hand = FakeClock()
    pool = ConnectionPool(driver, 2, clock=hand)
    await several(pool, 2)
    async with pool.acquire():
        assert driver.checked_numbers == []
    hand.now += IDLE_CHECK_AFTER
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
