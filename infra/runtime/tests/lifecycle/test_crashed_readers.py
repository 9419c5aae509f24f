"""A message that ends each process that reads it gets out of its queue, and no other does."""

from collections.abc import Sequence
from typing import cast

import pytest

from warrener_runtime.bus.port import Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.lifecycle.crashed_readers import (
    CRASHED,
    MAX_CRASHES,
    MAX_FAILURES,
    REJECTED,
    SUSPECT_AFTER,
    IsolatingHandler,
)


class Crash(BaseException):
    """The process is gone: nothing after it is done."""


class Notes:
    """Tries that outlive a process: together and alone."""

    def __init__(self) -> None:
        self.written: dict[bytes, tuple[int, int]] = {}
        self.parked: list[bytes] = []
        self.dead = False
        self.statements = 0
        self.reason = CRASHED
        self.details: list[str] = []

    async def tries(self, queue: str, deliveries: Sequence[Delivery]) -> list[tuple[int, int]]:
        assert queue == "work"
        self.statements += 1
        return [self.written.get(one.body, (0, 0)) for one in deliveries]

    async def begin(self, queue: str, deliveries: Sequence[Delivery]) -> None:
        self.statements += 1
        for one in deliveries:
            together, alone = self.written.get(one.body, (0, 0))
            is_alone = len(deliveries) == 1
            self.written[one.body] = (together + (not is_alone), alone + is_alone)

    async def end(self, queue: str, deliveries: Sequence[Delivery]) -> None:
        self.statements += 1
        if self.dead:
            raise ConnectionError("the process is gone")
        for one in deliveries:
            self.written.pop(one.body, None)

    async def park(self, queue: str, delivery: Delivery, reason: str, detail: str) -> None:
        assert (queue, reason) == ("work", self.reason)
        self.details.append(detail)
        self.parked.append(delivery.body)
        await self.end(queue, [delivery])


class Queue:
    """What is in the queue, and who takes it."""

    def __init__(self, *bodies: bytes) -> None:
        self.left = dict.fromkeys(bodies, 0)
        self.batches: list[list[bytes]] = []
        self.subscription = cast("Subscription", self)

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        for one in deliveries:
            del self.left[one.body]

    def deliver(self, epoch: int) -> list[Delivery]:
        return [
            Delivery(body, "k", "e", returns > 0, tag, epoch, headers={"x-delivery-count": returns})
            for tag, (body, returns) in enumerate(self.left.items(), 1)
        ]

    def returned(self) -> None:
        self.left = {body: returns + 1 for body, returns in self.left.items()}


class Process:
    """One life of a consumer that crashes at poison."""

    def __init__(self, queue: Queue, notes: Notes) -> None:
        self._queue, self._notes = queue, notes
        self.handler = IsolatingHandler("work", self._handle, notes)

    async def _handle(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        self._queue.batches.append([one.body for one in deliveries])
        if any(one.body == b"poison" for one in deliveries):
            self._notes.dead = True
            raise Crash
        await subscription.ack(deliveries)

    async def live(self, epoch: int) -> bool:
        """False: it has crashed."""
        self._notes.dead = False
        try:
            await self.handler(self._queue.subscription, self._queue.deliver(epoch))
        except Crash:
            self._queue.returned()
            return False
        return True


async def test_poison_is_parked_after_its_own_crashes_and_the_others_are_handled() -> None:
    queue, notes = Queue(b"poison", *(b"%d" % n for n in range(20))), Notes()
    lives = 0
    while not await Process(queue, notes).live(lives):
        lives += 1
        assert lives < 20
    with_poison = [len(batch) for batch in queue.batches if b"poison" in batch]
    assert with_poison == [21] * SUSPECT_AFTER + [21, 11, 6, 3, 2] + [1] * MAX_CRASHES
    assert queue.left == {}
    assert (notes.parked, notes.written) == ([b"poison"], {})


async def test_messages_of_lost_connections_are_handled_together() -> None:
    """A starved machine lost its connections again and again; no process died with these messages."""
    queue, notes = Queue(*(b"%d" % n for n in range(1000))), Notes()
    for _ in range(50):
        queue.returned()
    assert await Process(queue, notes).live(1)
    assert (queue.left, notes.written, notes.parked) == ({}, {}, [])
    assert [len(batch) for batch in queue.batches] == [1000]
    assert notes.statements == 3, "they are noted together, before and after"


async def test_a_try_that_its_process_survived_is_no_death_although_it_could_not_be_deleted() -> None:
    queue, notes = Queue(b"good", b"held up"), Notes()
    queue.left = dict.fromkeys(queue.left, SUSPECT_AFTER)
    handler = Process(queue, notes).handler
    notes.dead = True  # the store is away, when they are done and their tries are to be deleted
    with pytest.raises(ConnectionError):
        await handler(queue.subscription, queue.deliver(1))
    notes.dead = False
    queue.left = {b"good": SUSPECT_AFTER, b"held up": SUSPECT_AFTER}  # their acknowledgements were lost
    await handler(queue.subscription, queue.deliver(2))
    assert queue.batches == [[b"good", b"held up"]] * 2
    assert (queue.left, notes.written) == ({}, {})


async def test_an_error_is_no_crash_and_what_was_done_is_not_done_again() -> None:
    queue, notes = Queue(b"good", b"held up"), Notes()
    queue.left = {b"good": 0, b"held up": SUSPECT_AFTER}
    outages = 5

    async def handle(subscription: Subscription, deliveries: list[Delivery]) -> None:
        nonlocal outages
        queue.batches.append([one.body for one in deliveries])
        if deliveries[0].body == b"held up" and outages:
            outages -= 1
            raise ConnectionError("the store is away")
        await subscription.ack(deliveries)

    handler, batch = IsolatingHandler("work", handle, notes), queue.deliver(1)
    for _ in range(5):
        with pytest.raises(ConnectionError):
            await handler(queue.subscription, batch)
    await handler(queue.subscription, batch)
    assert (queue.left, notes.written) == ({}, {})
    assert queue.batches == [[b"good"], *[[b"held up"]] * 6]


async def test_a_message_at_which_the_handler_fails_is_parked_and_keeps_no_other_waiting() -> None:
    others = [b"%d" % n for n in range(20)]
    queue, notes = Queue(*others[:7], b"refused", *others[7:]), Notes()
    notes.reason = REJECTED

    async def handle(subscription: Subscription, deliveries: list[Delivery]) -> None:
        queue.batches.append([one.body for one in deliveries])
        if b"refused" in queue.batches[-1]:
            raise ValueError("out of range: postgresql://ada:secret@host/jobs")
        await subscription.ack(deliveries)

    handler, batch = IsolatingHandler("work", handle, notes), queue.deliver(1)
    for _ in range(MAX_FAILURES - 1):  # with a pause between them, as its consumer does after an error
        with pytest.raises(ValueError, match="out of range"):
            await handler(queue.subscription, batch)
        assert (queue.left, notes.parked) == ({b"refused": 0}, []), "the others have not waited"
    await handler(queue.subscription, batch)
    assert (queue.left, notes.parked, notes.written) == ({}, [b"refused"], {})
    assert notes.details == ["ValueError: out of range: postgresql://ada:***@host/jobs"]
    assert sum(len(one) == 1 and b"refused" in one for one in queue.batches) == MAX_FAILURES


@pytest.mark.parametrize("returns", [0, SUSPECT_AFTER])
async def test_if_the_handler_fails_at_all_messages_they_are_retried(returns: int) -> None:
    """A statement with a mistake, or a permission that is gone, is not the messages' fault."""
    queue, notes = Queue(b"one", b"two"), Notes()
    queue.left = dict.fromkeys(queue.left, returns)
    is_broken = True

    async def handle(subscription: Subscription, deliveries: list[Delivery]) -> None:
        if is_broken:
            raise ValueError("permission denied")
        await subscription.ack(deliveries)

    handler, batch = IsolatingHandler("work", handle, notes), queue.deliver(1)
    for _ in range(9):
        with pytest.raises(ValueError, match="permission denied"):
            await handler(queue.subscription, batch)
    is_broken = False
    await handler(queue.subscription, batch)
    assert (queue.left, notes.parked, notes.written) == ({}, [], {})


async def test_what_was_done_of_a_batch_that_went_back_hides_no_message_of_the_next_subscription() -> None:
    """The numbers of deliveries begin at one with each subscription."""
    queue, notes = Queue(b"done", b"held up"), Notes()
    is_away = True

    async def handle(subscription: Subscription, deliveries: list[Delivery]) -> None:
        if len(deliveries) > 1:
            raise ValueError("one of them is out of range")
        if is_away and deliveries[0].body == b"held up":
            raise ConnectionError("the store is away")
        await subscription.ack(deliveries)

    handler = IsolatingHandler("work", handle, notes)
    with pytest.raises(ConnectionError):
        await handler(queue.subscription, queue.deliver(1))
    is_away, later = False, Queue(b"other", b"held up")
    await handler(later.subscription, later.deliver(1))
    assert later.left == {}


async def test_a_message_that_crashed_its_readers_is_no_proof_that_others_can_be_handled() -> None:
    queue, notes = Queue(b"poison", b"good"), Notes()
    queue.left = dict.fromkeys(queue.left, SUSPECT_AFTER)
    notes.written = {b"poison": (0, MAX_CRASHES)}

    async def handle(subscription: Subscription, deliveries: list[Delivery]) -> None:
        raise ValueError("permission denied")

    with pytest.raises(ValueError, match="permission denied"):
        await IsolatingHandler("work", handle, notes)(queue.subscription, queue.deliver(1))
    assert (queue.left, notes.parked) == ({b"good": SUSPECT_AFTER}, [b"poison"])
