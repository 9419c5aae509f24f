"""What arrives is handed out whole, and handled in portions."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from warrener_runtime.bus import Delivery
from warrener_runtime.bus.subscriptions import DeliveryBuffer
from warrener_runtime.lifecycle.consumer import CHUNK_BYTES, split_into_chunks


def delivery(tag: int, size: int = 1) -> Delivery:
    return Delivery(
        body=b"x" * size, routing_key="key", exchange="events", redelivered=False, tag=tag, epoch=1
    )


async def one_each_turn(buffer: DeliveryBuffer, count: int) -> None:
    """As a reader does that hands over frame by frame."""
    for tag in range(count):
        buffer.put([delivery(tag)])
        await asyncio.sleep(0)  # one turn of the loop: frames come so


async def test_the_first_of_many_does_not_travel_alone() -> None:
    buffer = DeliveryBuffer()
    waiting = asyncio.create_task(buffer.batch())
    await asyncio.sleep(0)  # one turn: it waits now
    await one_each_turn(buffer, 50)
    assert [one.tag for one in await waiting] == list(range(50))


async def test_what_is_forgotten_while_more_arrives_is_not_handed_out() -> None:
    buffer = DeliveryBuffer()
    buffer.put([delivery(1)])
    waiting = asyncio.create_task(buffer.batch())
    await asyncio.sleep(0)  # one turn: it has seen the first
    buffer.clear()
    buffer.put([delivery(2)])
    assert [one.tag for one in await waiting] == [2]


async def test_after_the_end_what_arrived_is_handed_out_and_then_nothing() -> None:
    buffer = DeliveryBuffer()
    buffer.put([delivery(1)])
    buffer.end()
    assert [one.tag for one in await buffer.batch()] == [1]
    assert await buffer.batch() == []


@given(st.lists(st.integers(0, CHUNK_BYTES * 2), max_size=12), st.integers(1, 5))
def test_portions_are_all_of_a_batch_in_order_and_none_is_too_large(sizes: list[int], most: int) -> None:
    batch = [delivery(tag, size) for tag, size in enumerate(sizes)]
    found = list(split_into_chunks(batch, most))
    assert [one for part in found for one in part] == batch
    for part in found:
        assert 1 <= len(part) <= most
        assert len(part) == 1 or sum(len(one.body) for one in part) <= CHUNK_BYTES
