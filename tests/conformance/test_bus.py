"""What every Bus must do, run on the broker in memory and on RabbitMQ.

Faults that only a real broker has (alarms, half-open sockets, consumer timeouts) are told in
`infra/runtime/tests/bus/rabbitmq/test_traps.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.conformance.bus_rigs import (
    BURIED,
    EXCHANGES,
    JOBS,
    WITHIN,
    WORK,
    MemoryRig,
    Rig,
    collect,
    dead_lettering_to,
    death,
    make_message,
    make_messages,
    names,
    publish_once_routable,
    publish_until_received,
    receive,
    receive_all,
    until_waiting,
)

from warrener_contracts.topology import Binding, Exchange, Queue, Topology
from warrener_runtime.bus import Bus, PublishResult, Subscription, TopologyMismatch, open_bus
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.bus.port import DeclarationForbidden
from warrener_runtime.clock import SystemClock
from warrener_runtime.publishing import UnroutableMessages, publish_all


class TestPublishing:
    async def test_what_a_queue_has_is_confirmed_and_arrives_as_it_was_sent(self, bus: Bus) -> None:
        subscription = await bus.subscribe("jobs", prefetch=10)
        sent = make_message("one", "job.flights.load")

        assert await bus.publish([sent]) == [PublishResult.CONFIRMED]

        [delivery] = await receive(subscription, 1)
        assert delivery.body == b"one"
        assert (delivery.exchange, delivery.routing_key) == ("ask", "job.flights.load")
        assert (delivery.content_type, delivery.message_id, delivery.type) == ("text/plain", "one", "test")
        assert delivery.headers["traceparent"] == "00-one"
        assert not delivery.redelivered

        bodies = [b"x" * 600_000, b"", b"y" * 600_000]
        large = [make_message(str(n))._replace(body=body) for n, body in enumerate(bodies)]
        assert set(await bus.publish(large)) == {PublishResult.CONFIRMED}
        assert [one.body for one in await receive(subscription, 3)] == bodies

    async def test_a_message_names_the_user_of_its_bus_or_none(self, rig: Rig, bus: Bus) -> None:
        subscription = await bus.subscribe("jobs", prefetch=10)
        named = await rig.bus("named", user_id="guest")
        plain = make_message("two")._replace(headers={})
        for sender in (bus, named):
            assert set(await sender.publish([make_message("one"), plain])) == {PublishResult.CONFIRMED}
        received = await receive(subscription, 4)
        assert [one.user_id for one in received] == [None, None, "guest", "guest"]

    async def test_statuses_come_in_the_order_of_the_messages(self, bus: Bus) -> None:
        results = await bus.publish(
            [
                make_message("routed"),
                make_message("nobody", "unknown"),
                make_message("nobody cares", "unknown", mandatory=False),
                make_message("no exchange", exchange="missing"),
                make_message("routed too"),
            ]
        )

        confirmed, unroutable = PublishResult.CONFIRMED, PublishResult.UNROUTABLE
        assert results == [confirmed, unroutable, confirmed, unroutable, confirmed]
        assert await bus.publish([]) == []

    async def test_a_missing_exchange_does_not_harm_what_others_publish(self, bus: Bus) -> None:
        bad = [make_message(f"bad {n}", exchange="missing", mandatory=False) for n in range(20)]

        good, lost = await asyncio.gather(bus.publish(make_messages(range(200))), bus.publish(bad))

        assert set(good) == {PublishResult.CONFIRMED}
        assert set(lost) == {PublishResult.UNROUTABLE}

    async def test_messages_with_one_id_have_a_result_each(self, bus: Bus) -> None:
        confirmed, unroutable = PublishResult.CONFIRMED, PublishResult.UNROUTABLE
        twins = [make_message("twin", key) for key in ("unknown", "job.x", "unknown")]
        for _ in range(10):
            assert await bus.publish(twins) == [unroutable, confirmed, unroutable]

        results = await asyncio.gather(*(bus.publish([one]) for one in twins[:2] * 20))

        assert results == [[unroutable], [confirmed]] * 20, "those of several callers at once too"

    async def test_a_full_queue_refuses_until_there_is_room(self, bus: Bus) -> None:
        limits: dict[str, str | int] = {**WORK, "x-max-length": 5, "x-overflow": "reject-publish"}
        await bus.declare(Topology((), (Queue("small", (Binding("ask", "small"),), limits),)))
        results: list[PublishResult] = []
        while PublishResult.REFUSED not in results:  # the limit of RabbitMQ is soft
            results += await bus.publish([make_message(f"{len(results)}", "small")])
            assert len(results) < 50
        accepted = results.count(PublishResult.CONFIRMED)
        assert accepted >= 5

        subscription = await bus.subscribe("small", prefetch=accepted)
        await subscription.ack(await receive(subscription, accepted))

        async with asyncio.timeout(WITHIN):
            await publish_all(bus, [make_message("later", "small")], clock=SystemClock())
        assert names(await receive(subscription, 1)) == ["later"]

    async def test_publish_all_reports_what_nobody_is_bound_for_and_confirms_the_rest(self, bus: Bus) -> None:
        subscription = await bus.subscribe("jobs", prefetch=10)

        messages = [make_message("a"), make_message("b", "unknown"), make_message("c")]
        with pytest.raises(UnroutableMessages) as error:
            await publish_all(bus, messages, clock=SystemClock())

        assert [one.message_id for one in error.value.messages] == ["b"]
        assert names(await receive(subscription, 2)) == ["a", "c"]

    async def test_publish_all_declares_missing_exchanges_and_queues(self, rig: Rig, bus: Bus) -> None:
        late = Topology((Exchange("late"),), (Queue("late", (Binding("late", "#"),), WORK),))
        messages = [make_message("a"), make_message("b", "x", "late"), make_message("c", "x", "late")]

        async with asyncio.timeout(WITHIN):
            await publish_all(bus, messages, clock=SystemClock(), missing=lambda _: late)
            assert names(await receive(await bus.subscribe("jobs", prefetch=10), 1)) == ["a"]
            await until_waiting(bus, "late", 2)

            await rig.delete_queue("late")
            await publish_all(bus, messages[1:], clock=SystemClock(), missing=lambda _: late)

        assert names(await receive(await bus.subscribe("late", prefetch=10), 2)) == ["b", "c"]


PATTERNS = (
    ("a.b", "a.b", True),
    ("a.b", "a.c", False),
    ("a.*", "a.b", True),
    ("a.*", "a", False),
    ("a.*", "a.b.c", False),
    ("*.b", "a.b", True),
    ("a.#", "a", True),
    ("a.#", "a.b.c", True),
    ("#.c", "a.b.c", True),
    ("#.c", "c", True),
    ("*.a.#", "1s.a.b.c", True),
    ("*.a.#", "a.b.c", False),
    ("#", "anything.at.all", True),
    ("#.b.#", "a.b.c", True),
    ("#.b.#", "a.c", False),
)
"""Topic patterns, keys, and whether one brings the other."""


class TestRouting:
    async def test_topic_patterns(self, rig: Rig) -> None:
        bus = await rig.bus()
        cases = list(enumerate(PATTERNS))
        exchanges = tuple(Exchange(f"topic.{n}") for n, _ in cases)
        queues = (Queue(f"bound.{n}", (Binding(f"topic.{n}", pattern),)) for n, (pattern, _, _) in cases)
        await bus.declare(Topology(exchanges, tuple(queues)))

        results = await bus.publish([make_message("x", key, f"topic.{n}") for n, (_, key, _) in cases])

        confirmed = [result is PublishResult.CONFIRMED for result in results]
        assert confirmed == [brings for _, _, brings in PATTERNS]

    async def test_fanout_brings_one_copy_to_each_queue_and_direct_compares(self, bus: Bus) -> None:
        queues = tuple(Queue(name, (Binding("all", ""), Binding("one", name))) for name in ("left", "right"))
        await bus.declare(Topology((), queues))
        left = await bus.subscribe("left", prefetch=10)
        right = await bus.subscribe("right", prefetch=10)

        await bus.publish([make_message("both", "x", "all"), make_message("only right", "right", "one")])

        assert names(await receive(left, 1)) == ["both"]
        assert names(await receive(right, 2)) == ["both", "only right"]

        await bus.declare(Topology((), (Queue("twice", (Binding("ask", "#"), Binding("ask", "job.#"))),)))
        twice = await bus.subscribe("twice", prefetch=10)
        await bus.publish(make_messages(["first", "second"]))
        assert names(await receive(twice, 2)) == ["first", "second"], "one copy for two bindings that match"

    async def test_what_is_unroutable_goes_to_the_alternate_exchange(self, bus: Bus) -> None:
        await bus.declare(Topology((), (Queue("strays", (Binding("stray", "#"),)),)))
        strays = await bus.subscribe("strays", prefetch=10)

        assert await bus.publish([make_message("lost", "unknown", "told")]) == [PublishResult.CONFIRMED]

        [delivery] = await receive(strays, 1)
        assert (delivery.exchange, delivery.routing_key) == ("told", "unknown")

    async def test_declaring_twice_is_one_and_another_kind_is_a_mismatch(self, bus: Bus) -> None:
        await bus.declare(Topology(EXCHANGES, (JOBS,)))

        other = Topology((), (Queue("jobs", (), {**WORK, "x-max-length": 3}),))
        with pytest.raises(TopologyMismatch, match="jobs"):
            await bus.declare(other, verify=True)
        fanout = Exchange("ask", kind="fanout")
        with pytest.raises(TopologyMismatch, match="ask"):
            await bus.declare(Topology((fanout,), ()), verify=True)
        with pytest.raises(TopologyMismatch, match="ask"):
            await bus.claim(fanout)
        await bus.declare(other)  # looks, and leaves what is there
        assert await bus.publish([make_message("still there")]) == [PublishResult.CONFIRMED]

    async def test_a_bus_that_may_not_declare_uses_what_is_there_and_names_what_is_not(
        self, rig: Rig, bus: Bus
    ) -> None:
        await bus.declare(Topology(EXCHANGES, (JOBS,)))
        careful = await rig.bus("careful", declare="never")
        await careful.declare(
            Topology(EXCHANGES, (JOBS, Queue("own", (Binding("ask", "own"),), {}, exclusive=True)))
        )
        await careful.publish([make_message("seen")])
        assert names(await receive(await careful.subscribe("jobs", prefetch=10), 1)) == ["seen"]
        absent = Topology((Exchange("absent"),), (Queue("absent", (), WORK),))
        for verify in (False, True):
            with pytest.raises(DeclarationForbidden, match="absent"):
                await careful.declare(absent, verify=verify)
        assert await bus.publish([make_message("a", exchange="absent")]) == [PublishResult.UNROUTABLE]

    async def test_a_queue_of_another_version_with_another_delivery_limit_is_used_as_it_is(
        self, bus: Bus
    ) -> None:
        await bus.declare(Topology(EXCHANGES, (JOBS,)))
        later = Queue("jobs", (Binding("ask", "#"),), {**WORK, "x-delivery-limit": 3})
        await bus.declare(Topology((), (later,)), verify=True)
        other = Queue("jobs", (), {**later.arguments, "x-max-length": 3})
        with pytest.raises(TopologyMismatch, match="jobs"):
            await bus.declare(Topology((), (other,)), verify=True)
        subscription = await bus.subscribe("jobs", prefetch=10)
        await bus.publish([make_message("first")])
        assert names(await receive(subscription, 1)) == ["first"]


class TestBindingToTheExchangesOfOthers:
    async def test_bound_and_unbound_while_it_is_consumed(self, bus: Bus) -> None:
        control_queue = Queue("ear", (Binding("ask", "ear.*"), Binding("ask", "ear")), WORK)
        assert await bus.bind(control_queue) == []
        assert await bus.bind(control_queue) == [], "once more changes nothing"
        subscription = await bus.subscribe("ear", prefetch=10)
        await bus.publish([make_message("first", "ear.x"), make_message("second", "ear")])
        assert names(await receive(subscription, 2)) == ["first", "second"]

        await bus.unbind("ear", [Binding("ask", "ear.*")])
        await bus.unbind("ear", [Binding("ask", "ear.*")])
        results = await bus.publish([make_message("nobody", "ear.x"), make_message("third", "ear")])
        assert results == [PublishResult.UNROUTABLE, PublishResult.CONFIRMED]
        assert names(await receive(subscription, 1)) == ["third"]

        missing, there = Binding("theirs", "#"), Binding("ask", "other")
        assert await bus.bind(Queue("other", (missing, there), WORK)) == [missing]
        assert await bus.publish([make_message("received", "other")]) == [PublishResult.CONFIRMED]
        await bus.unbind("other", [missing])


class TestConsuming:
    async def test_messages_come_in_order_and_no_more_than_the_prefetch_at_a_time(self, bus: Bus) -> None:
        await bus.publish(make_messages(range(10)))
        subscription = await bus.subscribe("jobs", prefetch=4)

        first = await receive(subscription, 4)
        more = asyncio.create_task(receive(subscription, 4))
        await bus.ping()
        assert not more.done(), "the prefetch is taken"
        await subscription.ack(first)

        second = await more
        await subscription.ack(second)
        rest = await receive(subscription, 2)
        assert names([*first, *second, *rest]) == [str(n) for n in range(10)]

    async def test_acknowledging_out_of_order_leaves_exactly_the_others(self, rig: Rig, bus: Bus) -> None:
        await bus.publish(make_messages(range(8)))
        subscription = await bus.subscribe("jobs", prefetch=8)
        got = await receive(subscription, 8)

        await subscription.ack([got[5], got[1]])
        await subscription.ack([got[2], got[0], got[7]])
        await subscription.ack([got[1]])  # a second time says nothing new
        await bus.close()

        other = await (await rig.bus("other")).subscribe("jobs", prefetch=8)
        left = await receive(other, 3)
        assert names(left) == ["3", "4", "6"]
        assert all(delivery.redelivered for delivery in left)

    async def test_stop_ends_the_iteration_after_what_has_arrived(self, rig: Rig, bus: Bus) -> None:
        await bus.publish(make_messages(range(3)))
        subscription = await bus.subscribe("jobs", prefetch=5)
        got = await receive(subscription, 3)
        await bus.publish(make_messages([3, 4]))
        await bus.ping()  # comes by the same connection: what was sent before it has arrived
        await subscription.stop()
        await subscription.stop()
        assert not subscription.live
        await bus.publish(make_messages([5]))

        async with asyncio.timeout(WITHIN):
            got += [delivery async for batch in subscription for delivery in batch]
        await subscription.ack(got)  # what was handed out may still be settled
        await bus.close()

        other = await (await rig.bus("other")).subscribe("jobs", prefetch=10)
        rest = await receive(other, 6 - len(got))
        assert names([*got, *rest]) == [str(n) for n in range(6)]

    async def test_closing_ends_the_iteration_and_gives_back(self, rig: Rig, bus: Bus) -> None:
        await bus.publish(make_messages(["a"]))
        subscription = await bus.subscribe("jobs", prefetch=5)
        await receive(subscription, 1)
        waiting = asyncio.create_task(collect(subscription))

        await bus.close()
        await bus.close()

        async with asyncio.timeout(WITHIN):
            assert await waiting == []
        other = await (await rig.bus("other")).subscribe("jobs", prefetch=5)
        assert names(await receive(other, 1)) == ["a"]

    async def test_a_bus_that_never_started_closes(self, rig: Rig) -> None:
        unstarted = (
            MemoryBus(MemoryBroker()) if isinstance(rig, MemoryRig) else open_bus("amqp://x/", name="x")
        )

        async with asyncio.timeout(WITHIN):
            await unstarted.close()


class TestDeadLetters:
    async def test_what_is_rejected_for_good_is_buried_with_the_reason(self, bus: Bus) -> None:
        await bus.declare(Topology((), (_mortal_queue(),)))
        graves = await bus.subscribe("buried", prefetch=10)
        subscription = await bus.subscribe("mortal", prefetch=10)
        await bus.publish(make_messages(["bad"], "mortal"))

        await subscription.reject(await receive(subscription, 1), requeue=False)

        [dead] = await receive(graves, 1)
        assert dead.body == b"bad"
        assert (dead.exchange, dead.routing_key) == ("dead", "dead.mortal")
        assert (death(dead)["reason"], death(dead)["queue"]) == ("rejected", "mortal")
        assert (dead.message_id, dead.type, dead.headers["traceparent"]) == ("bad", "test", "00-bad")

    async def test_poison_is_buried_after_the_delivery_limit(self, bus: Bus) -> None:
        await bus.declare(Topology((), (_mortal_queue(),)))
        graves = await bus.subscribe("buried", prefetch=10)
        subscription = await bus.subscribe("mortal", prefetch=1)
        await bus.publish(make_messages(["poison", "good"], "mortal"))

        for returned in range(4):
            [delivery] = await receive(subscription, 1)
            assert (delivery.body, delivery.redelivered) == (b"poison", returned > 0)
            await subscription.reject([delivery], requeue=True)

        [dead] = await receive(graves, 1)
        assert (dead.body, death(dead)["reason"]) == (b"poison", "delivery_limit")
        assert names(await receive(subscription, 1)) == ["good"], "it blocks nobody"

    async def test_a_delay_queue_returns_a_message_under_the_key_it_had(self, bus: Bus) -> None:
        await bus.declare(Topology((), (_delay_queue(0.3),)))
        subscription = await bus.subscribe("jobs", prefetch=10)
        began = asyncio.get_running_loop().time()

        await bus.publish([make_message("later", "short.job.x", "wait")])

        [later] = await receive(subscription, 1)
        assert asyncio.get_running_loop().time() - began >= 0.3
        assert (later.body, later.exchange, later.routing_key) == (b"later", "return", "short.job.x")
        assert (death(later)["reason"], death(later)["queue"]) == ("expired", "delay")

    async def test_what_falls_out_of_a_delay_queue_waits_until_its_queue_exists(self, bus: Bus) -> None:
        await bus.declare(Topology((), (_delay_queue(0.05),)))
        await bus.publish([make_message("early", "short.nobody", "wait")])
        await bus.declare(Topology((), (Queue("late", (Binding("return", "*.nobody"),)),)))

        subscription = await bus.subscribe("late", prefetch=10)

        assert names(await receive(subscription, 1)) == ["early"]


def _mortal_queue() -> Queue:
    arguments = {
        **dead_lettering_to("dead"),
        "x-delivery-limit": 3,
        "x-dead-letter-routing-key": "dead.mortal",
    }
    return Queue("mortal", (Binding("ask", "mortal"),), arguments)


def _delay_queue(seconds: float) -> Queue:
    arguments = {**dead_lettering_to("return"), "x-message-ttl": int(seconds * 1000)}
    return Queue("delay", (Binding("wait", "short.#"),), arguments)


class TestRecovery:
    async def test_an_acknowledgement_for_a_lost_channel_is_passed_over(self, rig: Rig, bus: Bus) -> None:
        await bus.publish(make_messages(["a", "b"]))
        subscription = await bus.subscribe("jobs", prefetch=2)
        stale = await receive(subscription, 2)
        await rig.drop_connections()
        again = await receive(subscription, 2)
        assert all(one.redelivered for one in again)
        assert again[0].epoch > stale[0].epoch

        await subscription.ack(stale)
        await subscription.reject(stale, requeue=False)
        await subscription.ack([again[0]])
        await bus.close()

        other = await (await rig.bus("other")).subscribe("jobs", prefetch=2)
        assert names(await receive(other, 1)) == ["b"]

    async def test_nothing_confirmed_is_lost_when_connections_drop_and_iteration_goes_on(
        self, rig: Rig, bus: Bus
    ) -> None:
        subscription = await bus.subscribe("jobs", prefetch=20)
        await _survives(bus, subscription, rig.drop_connections)

    async def test_nothing_confirmed_is_lost_when_the_broker_restarts(self, mortal_rig: Rig) -> None:
        bus = await mortal_rig.bus()
        await bus.declare(Topology(EXCHANGES, (JOBS, BURIED)))
        subscription = await bus.subscribe("jobs", prefetch=20)
        await _survives(bus, subscription, mortal_rig.restart)

    async def test_a_deleted_queue_is_declared_and_consumed_again(self, rig: Rig, bus: Bus) -> None:
        subscription = await bus.subscribe("jobs", prefetch=5)

        await rig.delete_queue("jobs")

        async with asyncio.timeout(WITHIN):
            await publish_once_routable(bus, make_message("after"))
        assert names(await receive(subscription, 1)) == ["after"]
        assert subscription.live

    async def test_a_queue_that_is_declared_later_is_consumed_from_then_on(self, rig: Rig, bus: Bus) -> None:
        subscription = await bus.subscribe("later", prefetch=5)
        assert not subscription.live

        other = await rig.bus("other")
        await other.declare(Topology((), (Queue("later", (Binding("ask", "later"),)),)))
        await other.publish([make_message("x", "later")])

        assert names(await receive(subscription, 1)) == ["x"]
        assert subscription.live

    async def test_exclusive_queues_go_with_their_bus(self, rig: Rig, bus: Bus) -> None:
        control_queue = Queue("ear", (Binding("told", "all"),), exclusive=True)
        owner = await rig.bus("owner")
        await owner.declare(Topology(EXCHANGES, (control_queue,)))
        with pytest.raises(TopologyMismatch, match="ear"):
            await bus.declare(Topology((), (control_queue,)))
        to_control_queue = make_message("hello", "ear", "")
        assert await bus.publish([to_control_queue]) == [PublishResult.CONFIRMED]

        await owner.close()

        with pytest.raises(UnroutableMessages):  # refused at first, while the broker is still deleting it
            await publish_all(bus, [to_control_queue], clock=SystemClock())

    async def test_exclusive_queues_come_back_with_their_bus(self, rig: Rig, bus: Bus) -> None:
        await bus.declare(Topology((), (Queue("ear", (Binding("ask", "ear"),), exclusive=True),)))
        subscription = await bus.subscribe("ear", prefetch=5)
        assert subscription.live

        await rig.drop_connections()

        receiving = asyncio.ensure_future(anext(aiter(subscription)))
        await publish_until_received(bus, make_message("hello", "ear"), receiving)
        assert set(names(await receiving)) == {"hello"}


async def _survives(bus: Bus, subscription: Subscription, fault: Callable[[], Awaitable[None]]) -> None:
    """Publish and consume while the fault happens, and after it."""
    wanted = {f"{phase}{n}" for phase in "abc" for n in range(100)}
    receiving = asyncio.create_task(receive_all(subscription, wanted))
    await publish_all(bus, make_messages(f"a{n}" for n in range(100)), clock=SystemClock())
    harm = asyncio.ensure_future(fault())
    for n in range(100):
        await publish_all(bus, make_messages([f"b{n}"]), clock=SystemClock())
    await harm
    await publish_all(bus, make_messages(f"c{n}" for n in range(100)), clock=SystemClock())
    await receiving
    assert subscription.live
