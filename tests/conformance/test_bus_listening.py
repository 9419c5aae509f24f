"""What every Bus must do for those who listen or ping, run like `test_bus.py`."""

import asyncio
from collections import Counter

import pytest
from tests.conformance.bus_rigs import (
    WITHIN,
    Rig,
    collect,
    make_message,
    make_messages,
    names,
    publish_until_received,
    receive,
)

from warrener_contracts.topology import Binding, Queue, Topology
from warrener_runtime.bus import Bus, BusUnreachable, Delivery


class TestListening:
    async def test_a_message_is_handled_and_done(self, rig: Rig, bus: Bus) -> None:
        received: asyncio.Queue[Delivery] = asyncio.Queue()
        listening = await bus.listen("jobs", received.put)
        assert listening.live

        await bus.publish(make_messages(["a", "b"]))

        async with asyncio.timeout(WITHIN):
            assert names([await received.get(), await received.get()]) == ["a", "b"]
        await listening.stop()
        await collect(listening)
        assert not listening.live
        await bus.close()
        await _nothing_left(rig)

    async def test_a_handler_that_fails_gets_it_again(self, bus: Bus) -> None:
        seen: list[bool] = []
        done = asyncio.Event()

        async def stumbles(delivery: Delivery) -> None:
            seen.append(delivery.redelivered)
            if len(seen) == 1:
                raise RuntimeError("not yet")
            done.set()

        await bus.listen("jobs", stumbles)
        await bus.publish(make_messages(["a"]))

        async with asyncio.timeout(WITHIN):
            await done.wait()
        assert seen == [False, True]

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

        listening = await bus.listen("jobs", stumbles)
        await bus.publish(make_messages(["bug", "outage"]))
        async with asyncio.timeout(WITHIN):
            await done.wait()
        await listening.stop()
        await collect(listening)
        assert seen == {"bug": 3, "outage": 5}
        await bus.close()
        await _nothing_left(rig)

    async def test_listening_goes_on_when_connections_drop(self, rig: Rig, bus: Bus) -> None:
        received: asyncio.Queue[Delivery] = asyncio.Queue()
        await bus.declare(Topology((), (Queue("ear", (Binding("ask", "ear"),), exclusive=True),)))
        listening = await bus.listen("ear", received.put)
        await rig.drop_connections()

        receiving = asyncio.ensure_future(received.get())
        await publish_until_received(bus, make_message("after", "ear"), receiving)
        assert names([await receiving]) == ["after"]
        assert listening.live

    async def test_a_lost_connection_does_not_cancel_the_handler(self, rig: Rig, bus: Bus) -> None:
        running, may_end = asyncio.Event(), asyncio.Event()
        ended: asyncio.Queue[Delivery] = asyncio.Queue()

        async def slow(delivery: Delivery) -> None:
            running.set()
            await may_end.wait()
            await ended.put(delivery)

        await bus.listen("jobs", slow)
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

    async def test_closing_cancels_the_handler_and_gives_its_message_back(self, rig: Rig, bus: Bus) -> None:
        running = asyncio.Event()

        async def endless(_: Delivery) -> None:
            running.set()
            await asyncio.Event().wait()

        await bus.listen("jobs", endless)
        await bus.publish(make_messages(["a"]))
        async with asyncio.timeout(WITHIN):
            await running.wait()
            await bus.close()

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

    async def test_it_raises_where_there_is_no_way(self, bus: Bus) -> None:
        await bus.close()

        with pytest.raises(BusUnreachable):
            await bus.ping(timeout=0.5)
