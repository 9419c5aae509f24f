"""Batches: their confirms, returns and acknowledgements, whatever the order, against the plainest model; how
deliveries are gathered to some, and how these are cut into portions."""

import asyncio
from collections import UserList
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance.bus_rigs import make_message

from warrener_runtime.bus import Delivery, OutgoingMessage, PublishResult
from warrener_runtime.bus.rabbitmq.channels import AckPlan, ConfirmTracker, PublishBatch
from warrener_runtime.bus.rabbitmq.consumer import plan_acks
from warrener_runtime.bus.subscriptions import DeliveryBuffer
from warrener_runtime.lifecycle.consumer import CHUNK_BYTES, split_into_chunks

sizes = st.lists(st.integers(1, 6), min_size=1, max_size=6)
confirms = st.lists(st.tuples(st.integers(1, 36), st.booleans(), st.booleans()), max_size=30)


class Sent:
    """Batches on one channel, numbered from 1."""

    def __init__(self, batches: Sequence[Sequence[OutgoingMessage]]) -> None:
        self.tracker = ConfirmTracker()
        self.batches = [_RecordingBatch(batch) for batch in batches]
        sent = [(batch, index) for batch in self.batches for index in range(len(batch.messages))]
        for number, (batch, index) in enumerate(sent, start=1):
            self.tracker.add(number, batch, index)

    @property
    def results(self) -> list[PublishResult | None]:
        return [batch.decided.get(index) for batch in self.batches for index in range(len(batch.messages))]


class _RecordingBatch(PublishBatch):
    """Records each result once."""

    def __init__(self, messages: Sequence[OutgoingMessage]) -> None:
        super().__init__(messages)
        self.decided: dict[int, PublishResult] = {}

    def resolve(self, index: int, result: PublishResult) -> None:
        assert index not in self.decided, "decided twice"
        self.decided[index] = result
        super().resolve(index, result)


@given(sizes, confirms)
def test_every_message_has_its_first_result(
    sizes: list[int], confirms_in_order: list[tuple[int, bool, bool]]
) -> None:
    async def story() -> None:
        sent = Sent([[make_message(f"{n}-{m}") for m in range(size)] for n, size in enumerate(sizes)])
        expected: list[PublishResult | None] = [None] * sum(sizes)
        for number, multiple, positive in confirms_in_order:
            result = PublishResult.CONFIRMED if positive else PublishResult.REFUSED
            sent.tracker.confirm(number, result, multiple=multiple)
            for at in range(0 if multiple else number - 1, number):
                if at < len(expected):
                    expected[at] = expected[at] or result
        assert sent.results == expected
        sent.tracker.end(lambda _: PublishResult.UNKNOWN)
        assert sent.results == [result or PublishResult.UNKNOWN for result in expected]
        assert all(one.done.done() for one in sent.batches)

    asyncio.run(story())


@given(st.lists(st.sampled_from(["routed", "stray", "lost"]), min_size=1, max_size=12))
def test_twins_have_the_result_of_their_own_address(keys: list[str]) -> None:
    async def story() -> None:
        batch: list[OutgoingMessage] = [make_message("twin", key) for key in keys]
        sent = Sent([batch[:5], batch[5:]] if keys[5:] else [batch])
        for key in keys:  # the broker returns in the order of publishing
            if key != "routed":
                sent.tracker.unroutable("ask", key, "twin")
        sent.tracker.confirm(len(keys), PublishResult.CONFIRMED, multiple=True)
        assert sent.results == [
            PublishResult.CONFIRMED if key == "routed" else PublishResult.UNROUTABLE for key in keys
        ]

    asyncio.run(story())


class CountedMessages(UserList[OutgoingMessage]):
    """Counts how often a message is looked at."""

    reads = 0

    def __getitem__(self, index: Any) -> Any:
        self.reads += 1
        return self.data[int(index)]


async def test_returns_between_messages_that_wait_for_their_confirm_take_linear_work() -> None:
    size = 2_000
    messages = CountedMessages(make_message(f"id-{n}", "stray" if n % 2 else "routed") for n in range(size))
    sent = Sent([messages])
    for n in range(1, size, 2):
        sent.tracker.unroutable("ask", "stray", f"id-{n}")
    assert sent.results == [None, PublishResult.UNROUTABLE] * (size // 2)
    assert messages.reads == size


async def test_a_return_that_fits_nothing_decides_nothing() -> None:
    sent = Sent([[make_message("a")]])
    sent.tracker.unroutable("ask", "job.x", "somebody else's")
    assert sent.results == [None]


@pytest.mark.parametrize("multiple", [False, True])
async def test_a_confirm_of_what_was_never_sent_decides_nothing_more(*, multiple: bool) -> None:
    sent = Sent([[make_message("a"), make_message("b")]])
    sent.tracker.confirm(2, PublishResult.CONFIRMED, multiple=True)
    sent.tracker.confirm(99, PublishResult.REFUSED, multiple=multiple)
    assert sent.results == [PublishResult.CONFIRMED] * 2


def acknowledged(plan: AckPlan, unsettled: list[int]) -> set[int]:
    """What a broker takes the plan to mean."""
    in_range = {tag for tag in unsettled if plan.up_to is not None and tag <= plan.up_to}
    return in_range | set(plan.individual)


@given(st.data())
def test_a_plan_acknowledges_exactly_what_is_done(data: st.DataObject) -> None:
    unsettled = sorted(data.draw(st.sets(st.integers(1, 60), min_size=1)))
    done = data.draw(st.sets(st.sampled_from(unsettled), min_size=1))
    plan = plan_acks(unsettled, done)
    assert acknowledged(plan, unsettled) == done
    assert plan.individual == sorted(set(plan.individual))


def test_a_whole_batch_is_one_acknowledgement() -> None:
    assert plan_acks(range(1, 501), set(range(1, 501))) == AckPlan(500, [])


def test_gaps_cost_one_each() -> None:
    assert plan_acks([3, 4, 5, 7, 8, 9], {3, 4, 8}) == AckPlan(4, [8])
    assert plan_acks([3, 4, 5], {4}) == AckPlan(None, [4])


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
