"""What the pool promises: few connections, the warm one first, none that is broken, none that is busy."""

import asyncio
from dataclasses import dataclass, field

import pytest

from warrener_store.pool import LONG_IDLE, Pool


@dataclass(eq=False)
class Line:
    """A connection that can be cut, or go silent."""

    number: int
    cut: bool = False
    silent: bool = False
    closed: bool = False


@dataclass
class Exchange:
    """A driver whose database is in this process; a closing line takes its time if it is told to."""

    lines: list[Line] = field(default_factory=list[Line])
    asked: list[int] = field(default_factory=list[int])
    refuses: bool = False
    may_close: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.may_close.set()

    async def open(self) -> Line:
        if self.refuses:
            raise ConnectionRefusedError("nobody there")
        self.lines.append(Line(len(self.lines)))
        return self.lines[-1]

    def broken(self, connection: Line) -> bool:
        return connection.cut

    async def works(self, connection: Line) -> bool:
        self.asked.append(connection.number)
        return not connection.silent

    def hang_up(self, connection: Line) -> None:
        connection.closed = True

    async def close(self, connection: Line) -> None:
        await self.may_close.wait()
        connection.closed = True


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def exchange() -> Exchange:
    return Exchange()


async def several(pool: Pool[Line], count: int) -> None:
    """So many at once, and all given back."""
    loans = [pool.lent() for _ in range(count)]
    for loan in loans:
        await loan.__aenter__()
    for loan in loans:
        await loan.__aexit__(None, None, None)


async def test_the_one_given_back_last_is_lent_first(exchange: Exchange) -> None:
    pool = Pool(exchange, 3)
    await several(pool, 3)
    async with pool.lent() as line, pool.lent() as other:
        assert (line.number, other.number) == (2, 1)
    assert len(exchange.lines) == 3
    await pool.close()
    assert all(line.closed for line in exchange.lines)


async def test_who_comes_when_all_are_lent_waits_for_one(exchange: Exchange) -> None:
    pool = Pool(exchange, 1)
    async with pool.lent() as first:
        waiting = asyncio.create_task(pool.take())
        await asyncio.sleep(0)
        assert not waiting.done()
    assert await waiting is first
    await pool.give_back(first, interrupted=False)
    await pool.close()


async def test_an_error_of_the_statement_leaves_the_connection_in_use(exchange: Exchange) -> None:
    pool = Pool(exchange, 1)
    with pytest.raises(ValueError, match="refused"):
        async with pool.lent():
            raise ValueError("refused")
    async with pool.lent() as line:
        assert line.number == 0
    await pool.close()


@pytest.mark.parametrize("reason", [asyncio.CancelledError, TimeoutError])
async def test_one_that_was_interrupted_is_closed_before_its_borrower_goes_on(
    exchange: Exchange, reason: type[BaseException]
) -> None:
    pool = Pool(exchange, 1)
    with pytest.raises(reason):
        async with pool.lent():
            raise reason
    assert exchange.lines[0].closed
    async with pool.lent() as another:
        assert another.number == 1
    await pool.close()


async def test_one_that_is_silent_is_closed_without_waiting_and_so_are_the_idle_ones(
    exchange: Exchange,
) -> None:
    pool = Pool(exchange, 3)
    await several(pool, 3)
    exchange.may_close.clear()  # nobody says good-bye to a silent one
    with pytest.raises(TimeoutError):
        async with pool.lent():
            raise TimeoutError
    assert exchange.lines[2].closed
    async with pool.lent() as another:
        assert another.number == 3
    exchange.may_close.set()
    await pool.close()
    assert all(line.closed for line in exchange.lines)


async def test_who_is_interrupted_again_does_not_stop_the_closing(exchange: Exchange) -> None:
    exchange.may_close.clear()
    pool = Pool(exchange, 1)
    entered = asyncio.Event()

    async def borrow() -> None:
        async with pool.lent():
            entered.set()
            await asyncio.Event().wait()

    borrower = asyncio.create_task(borrow())
    await entered.wait()
    borrower.cancel()
    await asyncio.sleep(0)
    borrower.cancel()
    with pytest.raises(asyncio.CancelledError):
        await borrower
    exchange.may_close.set()
    await pool.close()
    assert exchange.lines[0].closed


async def test_a_broken_one_is_not_lent_and_takes_the_idle_ones_with_it(exchange: Exchange) -> None:
    pool = Pool(exchange, 3)
    await several(pool, 3)
    exchange.lines[2].cut = True
    async with pool.lent() as line:
        assert line.number == 3
    await pool.close()
    assert all(line.closed for line in exchange.lines)


async def test_one_that_breaks_while_it_is_lent_takes_the_idle_ones_with_it(exchange: Exchange) -> None:
    pool = Pool(exchange, 3)
    await several(pool, 3)
    async with pool.lent() as line:
        line.cut = True
    async with pool.lent() as line:
        assert line.number == 3
    await pool.close()


async def test_one_that_was_idle_for_long_is_asked_first_and_replaced_where_it_is_silent(
    exchange: Exchange,
) -> None:
    hand = Hand()
    pool = Pool(exchange, 2, clock=hand)
    await several(pool, 2)
    async with pool.lent():
        assert exchange.asked == []
    hand.now += LONG_IDLE
    exchange.lines[1].silent = True
    async with pool.lent() as line:
        assert line.number == 0
    assert exchange.asked == [1, 0]
    await pool.close()


async def test_a_database_that_refuses_costs_no_place(exchange: Exchange) -> None:
    pool = Pool(exchange, 1)
    exchange.refuses = True
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            await pool.take()
    exchange.refuses = False
    async with pool.lent() as line:
        assert line.number == 0
    await pool.close()
    await pool.close()
