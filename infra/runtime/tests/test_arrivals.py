"""What arrives is handed out whole, and handled in portions."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from warrener_runtime.bus import Delivery
from warrener_runtime.bus.arrivals import Arrivals
from warrener_runtime.lifecycle.portions import PORTION_BYTES, portions


def delivery(tag: int, size: int = 1) -> Delivery:
    return Delivery(
        body=b"x" * size, routing_key="key", exchange="events", redelivered=False, tag=tag, epoch=1
    )


async def one_each_turn(arrivals: Arrivals, count: int) -> None:
    """As a reader does that hands over frame by frame."""
    for tag in range(count):
        arrivals.put(delivery(tag))
        await asyncio.sleep(0)  # one turn of the loop: frames come so


async def test_the_first_of_many_does_not_travel_alone() -> None:
    arrivals = Arrivals()
    waiting = asyncio.create_task(arrivals.batch())
    await asyncio.sleep(0)  # one turn: it waits now
    await one_each_turn(arrivals, 50)
    assert [one.tag for one in await waiting] == list(range(50))


async def test_what_is_forgotten_while_more_arrives_is_not_handed_out() -> None:
    arrivals = Arrivals()
    arrivals.put(delivery(1))
    waiting = asyncio.create_task(arrivals.batch())
    await asyncio.sleep(0)  # one turn: it has seen the first
    arrivals.forget()
    arrivals.put(delivery(2))
    assert [one.tag for one in await waiting] == [2]


async def test_after_the_end_what_arrived_is_handed_out_and_then_nothing() -> None:
    arrivals = Arrivals()
    arrivals.put(delivery(1))
    arrivals.end()
    assert [one.tag for one in await arrivals.batch()] == [1]
    assert await arrivals.batch() == []


@given(st.lists(st.integers(0, PORTION_BYTES * 2), max_size=12), st.integers(1, 5))
def test_portions_are_all_of_a_batch_in_order_and_none_is_too_large(sizes: list[int], most: int) -> None:
    batch = [delivery(tag, size) for tag, size in enumerate(sizes)]
    found = list(portions(batch, most))
    assert [one for part in found for one in part] == batch
    for part in found:
        assert 1 <= len(part) <= most
        assert len(part) == 1 or sum(len(one.body) for one in part) <= PORTION_BYTES
