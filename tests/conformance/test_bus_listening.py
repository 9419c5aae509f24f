"""A listener on every Bus, its ping, and what it reports of a consumer's supply; run like `test_bus.py`."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
from tests.conformance.bus_rigs import WITHIN, Rig, make_messages, names, receive, until_waiting

from warrener_runtime.bus import Bus, BusUnreachable, Delivery, PublishResult, QueueStats
from warrener_runtime.clock import SystemClock
from warrener_runtime.lifecycle.listener import Listener


async def listener(bus: Bus, handle: Callable[[Delivery], Awaitable[None]]) -> Listener:
    started = Listener(bus, "jobs", handle, SystemClock())
    await started.start()
    return started


class TestListening:
    async def test_a_message_is_handled_and_done(self, rig: Rig, bus: Bus) -> None:
        received: asyncio.Queue[Delivery] = asyncio.Queue()
        listening = await listener(bus, received.put)
        assert listening.epoch is not None

        await bus.publish(make_messages(["a", "b"]))

        async with asyncio.timeout(WITHIN):
            assert names([await received.get(), await received.get()]) == ["a", "b"]
        await bus.backlog("jobs")  # the acknowledgements are sent before
        await listening.stop()
        assert listening.epoch is None
        await bus.close()
        await _nothing_left(rig)

    async def test_a_message_that_fails_by_a_bug_is_dropped_and_one_that_meets_an_outage_is_not(
        self, rig: Rig, bus: Bus
    ) -> None:
        seen: Counter[str] = Counter()
        done = asyncio.Event()

        async def stumbles(delivery: Delivery) -> None:
            [name] = names([delivery])
            seen[name] += 1
            if name == "bug":
                raise RuntimeError("never")
            if seen[name] <= 4:
                raise OSError("no database")
            done.set()

        await listener(bus, stumbles)
        await bus.publish(make_messages(["bug", "outage"]))
        async with asyncio.timeout(WITHIN):
            await done.wait()
        await bus.backlog("jobs")  # the last acknowledgement is sent before
        assert seen == {"bug": 3, "outage": 5}
        await bus.close()
        await _nothing_left(rig)

    async def test_a_lost_connection_does_not_cancel_the_handler(self, rig: Rig, bus: Bus) -> None:
        running, may_end = asyncio.Event(), asyncio.Event()
        ended: asyncio.Queue[Delivery] = asyncio.Queue()

        async def slow(delivery: Delivery) -> None:
            running.set()
            await may_end.wait()
            await ended.put(delivery)

        await listener(bus, slow)
        await bus.publish(make_messages(["a"]))
        async with asyncio.timeout(WITHIN):
            await running.wait()
            await rig.drop_connections()
            await bus.ping(timeout=WITHIN)
        assert ended.empty()

        may_end.set()

        async with asyncio.timeout(WITHIN):
            first, again = await ended.get(), await ended.get()
        assert (first.body, first.redelivered) == (b"a", False)
        assert (again.body, again.redelivered) == (b"a", True), "its acknowledgement came too late"

    async def test_a_stop_cancels_the_handler_and_gives_its_message_back(self, rig: Rig, bus: Bus) -> None:
        running = asyncio.Event()

        async def endless(_: Delivery) -> None:
            running.set()
            await asyncio.Event().wait()

        listening = await listener(bus, endless)
        await bus.publish(make_messages(["a"]))
        async with asyncio.timeout(WITHIN):
            await running.wait()
            await listening.stop()

        other = await (await rig.bus("other")).subscribe("jobs", prefetch=5)
        assert names(await receive(other, 1)) == ["a"]


async def _nothing_left(rig: Rig) -> None:
    other = await rig.bus("other")
    subscription = await other.subscribe("jobs", prefetch=5)
    await other.publish(make_messages(["last"]))
    assert names(await receive(subscription, 1)) == ["last"]


class TestPing:
    async def test_it_returns_when_the_way_there_and_back_is_open(self, rig: Rig, bus: Bus) -> None:
        await asyncio.gather(*(bus.ping() for _ in range(5)))
        await rig.drop_connections()
        await bus.ping(timeout=WITHIN)

    async def test_it_raises_where_there_is_no_way_and_a_publish_is_unknown(self, bus: Bus) -> None:
        await bus.close()

        with pytest.raises(BusUnreachable):
            await bus.ping(timeout=0.5)
        assert await bus.publish(make_messages(["late"]), timeout=1) == [PublishResult.UNKNOWN]


async def test_backlog_counts_messages_and_consumers(bus: Bus) -> None:
    assert await bus.backlog("nowhere") == QueueStats(0, 0)
    assert await bus.backlog("jobs") == QueueStats(0, 0), "the missing queue has broken nothing"
    await bus.publish(make_messages(range(5)))
    await until_waiting(bus, "jobs", 5, 0)
    subscription = await bus.subscribe("jobs", prefetch=2)
    await until_waiting(bus, "jobs", 3, 1)
    await subscription.stop()


async def test_a_consumer_knows_what_has_come_and_whether_more_may(bus: Bus) -> None:
    subscription = await bus.subscribe("jobs", prefetch=2)
    assert (subscription.received_count, subscription.has_capacity) == (0, True)
    await bus.publish(make_messages(range(2)))
    came = await receive(subscription, 2)
    assert (subscription.received_count, subscription.has_capacity) == (2, False)
    await subscription.ack(came)
    assert (subscription.received_count, subscription.has_capacity) == (2, True)


async def test_a_renewed_consumer_gets_what_was_unacknowledged_once_more(bus: Bus) -> None:
    subscription = await bus.subscribe("jobs", prefetch=10)
    await bus.publish(make_messages(range(3)))
    came = await receive(subscription, 3)
    subscription.resubscribe()
    again = await receive(subscription, 3)
    assert names(again) == names(came)
    assert all(delivery.redelivered for delivery in again)
    await subscription.ack(came)  # of the life before: passed over
    await subscription.ack(again)
    await until_waiting(bus, "jobs", 0, 1)
    assert subscription.live


async def test_7_what_is_unacknowledged_goes_back_when_a_consumer_is_closed(bus: Bus) -> None:
    subscription = await bus.subscribe("jobs", prefetch=2)
    await bus.publish(make_messages(range(3)))
    came = await receive(subscription, 2)
    await subscription.close()
    await until_waiting(bus, "jobs", 3, 0)
    await subscription.ack(came)  # it is over: passed over
    await subscription.close()
    again = await bus.subscribe("jobs", prefetch=10)
    assert set(names(await receive(again, 3))) == {"0", "1", "2"}
    assert not subscription.live
