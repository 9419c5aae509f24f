"""What a queue does not take is left where it may be; everything else is published until it is confirmed."""

import asyncio

import pytest

from warrener_contracts.messages import Message
from warrener_contracts.topology import Binding, Exchange, Queue, Topology
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.bus.types import OutgoingMessage, TopologySpec
from warrener_runtime.publishing import UnroutableMessages, publish_all
from warrener_runtime.virtual_clock import VirtualClock

SMALL: dict[str, str | int] = {"x-max-length": 1, "x-overflow": "reject-publish"}


def message(queue: str, number: int) -> Message:
    return Message("work", queue, b"{}", "text/plain", f"{queue}-{number}", "test", {}, mandatory=True)


def any_may(_: OutgoingMessage) -> bool:
    return True


def is_full(each: OutgoingMessage) -> bool:
    return each.routing_key == "full"


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker(VirtualClock())


@pytest.fixture
async def bus(broker: MemoryBroker) -> MemoryBus:
    bus = MemoryBus(broker)
    await bus.start()
    queues = (
        Queue("full", (Binding("work", "full"),), SMALL),
        Queue("good", (Binding("work", "good"),)),
        Queue("ill", (Binding("work", "ill"),)),
    )
    await bus.declare(Topology((Exchange("work"),), queues))
    broker.lose_quorum("ill")
    return bus


async def test_2_what_is_refused_is_left_and_the_others_are_confirmed(bus: MemoryBus) -> None:
    clock = VirtualClock()
    messages = [message(queue, n) for n in range(5) for queue in ("full", "good")]
    deferred = await publish_all(bus, messages, clock=clock, may_defer=any_may)
    assert {each.routing_key for each in deferred} == {"full"}
    assert (await bus.backlog("good")).waiting == 5


async def test_2_what_is_not_confirmed_is_left_if_the_broker_answers(bus: MemoryBus) -> None:
    clock = VirtualClock()
    messages = [message("ill", 1), message("good", 1)]
    publishing = asyncio.create_task(publish_all(bus, messages, clock=clock, may_defer=any_may))
    await clock.advance(10)
    assert [each.routing_key for each in await publishing] == ["ill"]
    assert (await bus.backlog("good")).waiting == 1


async def test_2_what_may_not_be_left_is_published_until_it_is_taken(bus: MemoryBus) -> None:
    clock = VirtualClock()
    messages = [message("full", n) for n in range(3)]
    publishing = asyncio.create_task(
        publish_all(bus, messages, clock=clock, may_defer=lambda each: each.message_id == "full-2")
    )
    await clock.advance(30)
    assert not publishing.done(), "full-1 has nowhere else to stay"
    publishing.cancel()


NEW = Topology((Exchange("work"),), (Queue("new", (Binding("work", "new"),)),))


def needed_by(each: OutgoingMessage) -> Topology | None:
    return NEW if each.routing_key == "new" else None


async def test_a_missing_queue_is_declared_and_its_messages_are_published_again(bus: MemoryBus) -> None:
    messages = [message(queue, n) for queue in ("full", "new") for n in (1, 2)] + [message("good", 1)]
    deferred = await publish_all(bus, messages, clock=VirtualClock(), may_defer=any_may, missing=needed_by)
    assert [each.routing_key for each in deferred] == ["full"]
    assert [(await bus.backlog(name)).waiting for name in ("new", "good")] == [2, 1], "each once"


async def test_messages_of_an_unknown_queue_are_raised(bus: MemoryBus) -> None:
    for messages in ([message("nobody", 1)], [message("nobody", 2), message("new", 1)]):
        with pytest.raises(UnroutableMessages) as caught:
            await publish_all(bus, messages, clock=VirtualClock(), missing=needed_by)
        assert [each.routing_key for each in caught.value.messages] == ["nobody"]
    assert (await bus.backlog("new")).waiting == 1, "the others are published"


@pytest.mark.parametrize(
    "useless",
    [
        Topology((Exchange("work"),), (Queue("unbound", ()),)),
        Topology((Exchange("work", kind="fanout"),), ()),
    ],
    ids=["binds nothing", "is refused"],
)
async def test_a_message_whose_declaration_changes_nothing_is_raised(
    bus: MemoryBus, useless: Topology
) -> None:
    messages = [message("full", 1), message("full", 2), message("nobody", 1), message("good", 1)]
    with pytest.raises(UnroutableMessages) as caught:
        await publish_all(bus, messages, clock=VirtualClock(), may_defer=is_full, missing=lambda _: useless)
    assert [each.routing_key for each in caught.value.messages] == ["nobody"]
    assert [each.routing_key for each in caught.value.deferred] == ["full"]
    assert (await bus.backlog("good")).waiting == 1


async def test_messages_that_may_be_deferred_do_not_fail_the_others_and_few_declarations_are_tried(
    bus: MemoryBus, broker: MemoryBroker
) -> None:
    """As dispatches to queues that strangers name."""
    tried = list[str]()

    class Counting(MemoryBus):
        async def declare(self, topology: TopologySpec, *, verify: bool = False) -> None:
            tried.extend(queue.name for queue in topology.queues)
            await super().declare(topology, verify=verify)

    publisher = Counting(broker)
    await publisher.start()
    refused = [Topology((Exchange("work", kind="fanout"),), (Queue(f"bad-{n}", ()),)) for n in range(300)]
    messages = [message(f"bad-{n}", n) for n in range(300)] + [message("good", 1)]
    deferred = await publish_all(
        publisher,
        messages,
        clock=VirtualClock(),
        may_defer=any_may,
        missing=lambda each: refused[int(each.routing_key.partition("-")[2])],
    )
    assert deferred == messages[:-1]
    assert tried == [f"bad-{n}" for n in range(5)]
    assert (await bus.backlog("good")).waiting == 1


async def test_a_returned_message_does_not_wait_for_a_full_queue(bus: MemoryBus) -> None:
    """It is published again although another message has to wait for room."""
    clock = VirtualClock()
    messages = [message("full", 1), message("full", 2), message("new", 1)]
    publishing = asyncio.create_task(publish_all(bus, messages, clock=clock, missing=needed_by))
    await clock.advance(1)
    assert (await bus.backlog("new")).waiting == 1
    assert not publishing.done()
    subscription = await bus.subscribe("full", prefetch=10)
    await subscription.ack(await anext(aiter(subscription)))
    await clock.advance(10)
    assert await publishing == []
