"""What confirms and returns decide, whatever their order; held against the plainest model there is."""

import asyncio
from collections import UserList
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance.bus_rigs import make_message

from warrener_runtime.bus import OutgoingMessage, PublishResult
from warrener_runtime.bus.rabbitmq.lean.publisher_channel import ConfirmTracker, PublishBatch

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
