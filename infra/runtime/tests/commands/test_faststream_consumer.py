"""Commands by FastStream on a real broker: routing, order, retries, and the faults of connections."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import cast

import aiormq
import pytest
from tests.conformance.bus_rigs import EXCHANGES, WITHIN, WORK, make_message, publish_once_routable
from tests.faults.tcp_proxy import TcpProxy
from tests.servers.kinds import RabbitMQServer

from warrener_contracts.topology import Binding, Queue, Topology
from warrener_devservers.process import free_block
from warrener_runtime.bus import Bus, Delivery, open_bus
from warrener_runtime.clock import SystemClock
from warrener_runtime.commands import SUSPECT_COMMANDS_AFTER, CommandQueue, faststream_consumer
from warrener_runtime.commands import connection as command_connection
from warrener_runtime.commands.faststream_consumer import FastStreamConsumer, consume_by_faststream
from warrener_runtime.health import HealthRegistry, NotReady, current_health_registry
from warrener_runtime.lifecycle import Component
from warrener_runtime.lifecycle.components import StoppedWhileStarting
from warrener_runtime.publishing import publish_all

COMMANDS = Queue("commands", (Binding("ask", "#"),), WORK)
GRAVE = Queue("grave", (), WORK)
WITH_GRAVE = Queue(
    "commands",
    COMMANDS.bindings,
    {**WORK, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": GRAVE.name},
)


class NoCrashes:
    """No message ends its reader. `steps` has what was recorded about suspected ones."""

    def __init__(self, steps: list[str]) -> None:
        self._steps = steps

    async def tries(self, queue: str, deliveries: Sequence[Delivery]) -> list[tuple[int, int]]:
        return [(0, 0) for _ in deliveries]

    async def begin(self, queue: str, deliveries: Sequence[Delivery]) -> None:
        self._steps.append("begin")

    async def end(self, queue: str, deliveries: Sequence[Delivery]) -> None:
        self._steps.append("end")

    async def park(self, queue: str, delivery: Delivery, crashes: int) -> None: ...


@dataclass
class Route:
    """Messages that begin with a word."""

    name: str
    inbox: "Inbox"

    def accepts(self, events: str) -> bool:
        return events.startswith(self.name)

    async def carry_out(self, events: str) -> None:
        await self.inbox.record(f"{self.name}: {events}")


@dataclass
class Inbox:
    """Records what is carried out. `before` is called first, and may wait or fail."""

    before: Callable[[str], Awaitable[None]] | None = None
    done: "asyncio.Queue[str]" = field(default_factory=asyncio.Queue[str])
    begun: "asyncio.Queue[str]" = field(default_factory=asyncio.Queue[str])
    steps: list[str] = field(default_factory=list[str])

    @property
    def routes(self) -> Sequence[Route]:
        return (Route("put", self), Route("drop", self))

    async def decode(self, message: Delivery) -> str:
        self.steps.append("decode")
        return message.body.decode()

    async def carry_out(self, events: str) -> None:
        route = next((route for route in self.routes if route.accepts(events)), None)
        await (self.record(f"any: {events}") if route is None else route.carry_out(events))

    async def record(self, events: str) -> None:
        self.begun.put_nowait(events)
        if self.before is not None:
            await self.before(events)
        self.done.put_nowait(events)

    async def next(self, queue: "asyncio.Queue[str] | None" = None) -> str:
        async with asyncio.timeout(WITHIN * 2):
            return await (queue or self.done).get()

    async def until(self, last: str) -> None:
        """Wait until it is carried out. Those before it may come twice: a connection that is renewed or lost
        takes their acknowledgements with it."""
        while (name := await self.next()) != last:
            assert name < last


_LIBRARIES = ("aio_pika", "aiormq", "faststream", "anyio", command_connection.__file__)


@dataclass
class Stage:
    """A bus, and a consumer of its queue of commands."""

    bus: Bus
    component: Component
    registry: HealthRegistry
    probed: int = 0

    async def send(self, *names: str) -> None:
        await publish_all(self.bus, [make_message(name) for name in names], clock=SystemClock())

    async def not_ready(self) -> bool:
        try:
            await self.registry.checks["commands"]()
        except NotReady:
            return True
        return False

    async def waiting(self, queue: str = "commands") -> int:
        return (await self.bus.backlog(queue)).waiting

    async def wait_for(self, count: int, queue: str = "commands") -> None:
        """Wait until so many messages wait in a queue."""
        async with asyncio.timeout(WITHIN):
            while await self.waiting(queue) != count:  # noqa: ASYNC110 - the broker has no event for it
                await asyncio.sleep(0.01)


@pytest.fixture
async def closing() -> AsyncIterator[AsyncExitStack]:
    """Closes what a test has opened, and shows that no task of the libraries outlives it."""
    async with AsyncExitStack() as stack:
        yield stack
    await at_most_tasks_of_libraries(0)


async def at_most_tasks_of_libraries(count: int) -> None:
    """Wait until at most `count` tasks of the libraries are left: those of a closed connection end after it.

    The task that closes a connection counts too. It may still be at work when `stop` has waited long enough.
    """
    left = list[asyncio.Task[object]]()
    try:
        async with asyncio.timeout(WITHIN):
            while len(left := [task for task in asyncio.all_tasks() if _is_of_libraries(task)]) > count:
                await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError:
        for task in left:
            task.print_stack()
        pytest.fail(f"expected at most {count} tasks, got {left}")


def _is_of_libraries(task: asyncio.Task[object]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and any(name in code.co_filename for name in _LIBRARIES)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults are noticed in a second. A machine that stands still for so long is one, and costs a second
    delivery of what was not acknowledged."""
    monkeypatch.setattr(faststream_consumer, "_CHECK_INTERVAL", 0.2)
    monkeypatch.setattr(command_connection, "_CHECK_TIMEOUT", 0.5)
    monkeypatch.setattr(faststream_consumer, "_REPLACE_AFTER", 0.5)
    monkeypatch.setattr(command_connection, "_CLOSE_TIMEOUT", 1.0)


@pytest.fixture
async def proxy(broker: RabbitMQServer) -> AsyncIterator[TcpProxy]:
    proxy = TcpProxy(broker.port)
    await proxy.start()
    yield proxy
    await proxy.stop()


async def assembled(
    url: str, inbox: Inbox, closing: AsyncExitStack, *, through: str = "", queue: Queue = COMMANDS
) -> Stage:
    """Connect; the commands come by the URL `through` if there is one."""
    bus = open_bus(url, name="tested")
    await bus.start()
    closing.push_async_callback(bus.close)
    await bus.declare(Topology(EXCHANGES, ()))
    registry = HealthRegistry(consumer_stall_timeout=60, release_timeout=0.5)
    carrier = consume_by_faststream(through or url, name="tested", namespace="warrener")

    async def probe() -> None:
        stage.probed += 1
        if stage.probed < 2:
            raise OSError("the store is away")

    commands = CommandQueue("commands", queue, inbox, NoCrashes(inbox.steps), probe, SystemClock())
    stage = Stage(bus, carrier(commands, bus), registry)
    closing.push_async_callback(stage.component.stop)
    return stage


async def opened(
    url: str, inbox: Inbox, closing: AsyncExitStack, *, through: str = "", queue: Queue = COMMANDS
) -> Stage:
    """Start."""
    stage = await assembled(url, inbox, closing, through=through, queue=queue)
    token = current_health_registry.set(stage.registry)
    try:
        async with asyncio.timeout(WITHIN):
            await stage.component.start()
    finally:
        current_health_registry.reset(token)
    return stage


class TestMessages:
    async def test_each_command_goes_to_its_function_in_order(
        self, vhost_url: str, closing: AsyncExitStack
    ) -> None:
        inbox = Inbox()
        stage = await opened(vhost_url, inbox, closing)
        await stage.send("put-1", "drop-2", "other", "put-3")
        assert [await inbox.next() for _ in range(4)] == [
            "put: put-1",
            "drop: drop-2",
            "any: other",
            "put: put-3",
        ]
        await stage.component.drain()
        await stage.component.stop()
        assert await stage.waiting() == 0

    async def test_16_commands_come_by_a_node_that_is_up(
        self, vhost_url: str, closing: AsyncExitStack
    ) -> None:
        inbox = Inbox()
        hosts = f"@127.0.0.1:{free_block((0,))},"  # the first one is down
        stage = await opened(vhost_url.replace("@", hosts), inbox, closing)
        await stage.send("put-1")
        assert await inbox.next() == "put: put-1"

    async def test_commands_that_wait_at_the_start_are_carried_out(
        self, vhost_url: str, closing: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bus = open_bus(vhost_url, name="early")
        await bus.start()
        closing.push_async_callback(bus.close)
        await bus.declare(Topology(EXCHANGES, (COMMANDS,)))
        await publish_all(bus, [make_message(f"put-{n}") for n in range(3)], clock=SystemClock())
        inbox = Inbox()
        # They come by themselves, and not because a silent connection is replaced.
        monkeypatch.setattr(faststream_consumer, "_REPLACE_AFTER", 600.0)
        monkeypatch.setattr(faststream_consumer, "_RENEW_AFTER", 600.0)
        await opened(vhost_url, inbox, closing)
        async with asyncio.timeout(WITHIN):
            assert [await inbox.next() for _ in range(3)] == [f"put: put-{n}" for n in range(3)]

    async def test_a_failed_command_is_retried_before_the_next(
        self, vhost_url: str, closing: AsyncExitStack
    ) -> None:
        failures = iter([OSError("the store is away")])

        async def fail_once(_: str) -> None:
            for failure in failures:
                raise failure

        inbox = Inbox(fail_once)
        stage = await opened(vhost_url, inbox, closing)
        await stage.send("put-1", "put-2")
        assert [await inbox.next() for _ in range(2)] == ["put: put-1", "put: put-2"]
        assert not await stage.not_ready()

    async def test_after_enough_retries_it_goes_back_until_the_probe_succeeds(
        self, vhost_url: str, closing: AsyncExitStack
    ) -> None:
        stage: Stage | None = None

        async def fail_until_probed(_: str) -> None:
            if stage is None or stage.probed < 2:
                raise OSError("the store is away")

        inbox = Inbox(fail_until_probed)
        stage = await opened(vhost_url, inbox, closing)
        await stage.send("put-1")
        async with asyncio.timeout(WITHIN):
            while not await stage.not_ready():  # noqa: ASYNC110 - a check has no event
                await asyncio.sleep(0.01)
        assert await inbox.next() == "put: put-1"
        assert stage.probed == 2
        assert not await stage.not_ready()

    async def test_a_drain_finishes_the_running_command_and_begins_no_other(
        self, vhost_url: str, closing: AsyncExitStack
    ) -> None:
        may_end = asyncio.Event()

        async def wait(_: str) -> None:
            await may_end.wait()

        inbox = Inbox(wait)
        stage = await opened(vhost_url, inbox, closing)
        await stage.send("put-1", "put-2")
        await inbox.next(inbox.begun)
        draining = asyncio.create_task(stage.component.drain())
        await asyncio.sleep(0)
        may_end.set()
        await draining
        await stage.component.stop()
        assert inbox.done.qsize() == 1
        await stage.wait_for(1)  # the broker returns it after the close

    async def test_a_stop_returns_the_running_command(self, vhost_url: str, closing: AsyncExitStack) -> None:
        async def wait(_: str) -> None:
            await asyncio.Event().wait()

        inbox = Inbox(wait)
        stage = await opened(vhost_url, inbox, closing)
        await stage.send("put-1")
        await inbox.next(inbox.begun)
        await stage.component.stop()
        await stage.wait_for(1)

    async def test_a_command_with_a_bug_is_dead_lettered_and_the_next_is_carried_out(
        self, vhost_url: str, closing: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(faststream_consumer, "_MAX_RELEASES", 1)

        async def fail_at_first(name: str) -> None:
            if name == "put: put-1":
                raise KeyError(name)

        inbox = Inbox(fail_at_first)
        stage = await opened(vhost_url, inbox, closing, queue=WITH_GRAVE)
        await stage.bus.declare(Topology((), (GRAVE,)))
        await stage.send("put-1", "put-2")
        assert await inbox.next() == "put: put-2"
        await stage.wait_for(1, GRAVE.name)
        assert not await stage.not_ready()

    async def test_an_outage_dead_letters_nothing(
        self, vhost_url: str, closing: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(faststream_consumer, "_MAX_RELEASES", 0)
        failures = iter([OSError("the store is away")] * 8)

        async def fail_often(_: str) -> None:
            for failure in failures:
                raise failure

        inbox = Inbox(fail_often)
        stage = await opened(vhost_url, inbox, closing, queue=WITH_GRAVE)
        await stage.bus.declare(Topology((), (GRAVE,)))
        await stage.send("put-1")
        assert await inbox.next() == "put: put-1"
        assert await stage.waiting(GRAVE.name) == 0

    async def test_what_cannot_be_read_is_dead_lettered(
        self, vhost_url: str, closing: AsyncExitStack
    ) -> None:
        """An inbox reads everything; if one has a bug, its queue must not stop."""
        inbox = Inbox()
        stage = await opened(vhost_url, inbox, closing, queue=WITH_GRAVE)
        await stage.bus.declare(Topology((), (GRAVE,)))
        unreadable = make_message("put-1")._replace(body=b"\xff")
        await publish_all(stage.bus, [unreadable, make_message("put-2")], clock=SystemClock())
        assert await inbox.next() == "put: put-2"
        await stage.wait_for(1, GRAVE.name)

    async def test_a_message_that_may_have_crashed_its_reader_is_decoded_under_protection(
        self, vhost_url: str, closing: AsyncExitStack
    ) -> None:
        inbox = Inbox()
        stage = await assembled(vhost_url, inbox, closing)
        await stage.bus.declare(Topology((), (COMMANDS,)))
        await stage.send("put-1")
        async with aiormq.connect(vhost_url) as connection:
            channel = await connection.channel()
            for _ in range(SUSPECT_COMMANDS_AFTER):
                message = await channel.basic_get("commands")
                assert message.delivery_tag is not None
                await channel.basic_reject(message.delivery_tag, requeue=True)
        await stage.component.start()
        assert await inbox.next() == "put: put-1"
        await stage.component.drain()
        assert inbox.steps == ["begin", "decode", "end"]


@pytest.mark.usefixtures("hasty")
class TestFaults:
    async def test_a_lost_connection_does_not_cancel_the_running_command(
        self, broker: RabbitMQServer, vhost_url: str, closing: AsyncExitStack
    ) -> None:
        may_end = asyncio.Event()

        async def wait(_: str) -> None:
            await may_end.wait()

        inbox = Inbox(wait)
        stage = await opened(vhost_url, inbox, closing)
        await stage.send("put-1")
        await inbox.next(inbox.begun)
        await asyncio.to_thread(broker.close_connections)
        may_end.set()
        assert await inbox.next() == "put: put-1"
        assert await inbox.next() == "put: put-1", "its acknowledgement came too late"
        await publish_once_routable(stage.bus, make_message("put-2"))
        await inbox.until("put: put-2")

    async def test_a_half_open_connection_is_replaced(
        self, proxy: TcpProxy, vhost_url: str, closing: AsyncExitStack
    ) -> None:
        inbox = Inbox()
        vhost = vhost_url.rpartition("/")[2]
        through = f"amqp://guest:guest@127.0.0.1:{proxy.port}/{vhost}?heartbeat=2"  # the broker notices, too
        stage = await opened(vhost_url, inbox, closing, through=through)
        proxy.blackhole()
        await stage.send("put-1")
        assert await inbox.next() == "put: put-1"

    async def test_a_stop_while_the_broker_is_silent_is_bounded(
        self, vhost_url: str, closing: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(faststream_consumer, "_CONNECT_TIMEOUT", 0.5)
        connected = asyncio.Event()

        def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            closing.callback(writer.close)
            connected.set()

        silent = await asyncio.start_server(accept, "127.0.0.1", 0)
        closing.callback(silent.close)
        port = silent.sockets[0].getsockname()[1]
        through = f"amqp://guest:guest@127.0.0.1:{port}/"
        stage = await assembled(vhost_url, Inbox(), closing, through=through)
        starting = asyncio.create_task(stage.component.start())
        async with asyncio.timeout(WITHIN):
            await connected.wait()
            await stage.component.stop()
            with pytest.raises(StoppedWhileStarting):
                await starting

    async def test_a_refused_queue_is_tried_until_the_stop(
        self, vhost_url: str, closing: AsyncExitStack
    ) -> None:
        inbox = Inbox()
        stage = await assembled(vhost_url, inbox, closing)
        other = Queue("commands", (), {**WORK, "x-max-length": 7})
        await stage.bus.declare(Topology((), (other,)))
        starting = asyncio.create_task(stage.component.start())
        async with aiormq.connect(vhost_url) as connection:
            channel = await connection.channel()
            await channel.queue_delete("commands")
        async with asyncio.timeout(WITHIN):
            await starting
        await stage.send("put-1")
        assert await inbox.next() == "put: put-1"

    async def test_a_renewed_connection_leaves_nothing_behind(
        self, broker: RabbitMQServer, vhost_url: str, closing: AsyncExitStack
    ) -> None:
        inbox = Inbox()
        stage = await opened(vhost_url, inbox, closing)
        consumer = cast("FastStreamConsumer", stage.component)
        of_one_connection = sum(map(_is_of_libraries, asyncio.all_tasks()))
        for n in range(5):
            consumer.resubscribe()
            await publish_once_routable(stage.bus, make_message(f"put-{n}"))
            await inbox.until(f"put: put-{n}")
        await asyncio.to_thread(broker.close_connections)
        await publish_once_routable(stage.bus, make_message("put-5"))
        await inbox.until("put: put-5")
        await at_most_tasks_of_libraries(of_one_connection)

    async def test_a_deleted_queue_is_declared_again(self, vhost_url: str, closing: AsyncExitStack) -> None:
        inbox = Inbox()
        stage = await opened(vhost_url, inbox, closing)
        async with aiormq.connect(vhost_url) as connection:
            await (await connection.channel()).queue_delete("commands")
        async with asyncio.timeout(WITHIN):
            await publish_once_routable(stage.bus, make_message("put-1"))
        assert await inbox.next() == "put: put-1"

    async def test_it_outlives_the_broker(
        self, own_rabbitmq: RabbitMQServer, closing: AsyncExitStack
    ) -> None:
        inbox = Inbox()
        stage = await opened(own_rabbitmq.url, inbox, closing)
        await asyncio.to_thread(own_rabbitmq.settle)
        await asyncio.to_thread(own_rabbitmq.kill)
        await asyncio.to_thread(own_rabbitmq.start)
        async with asyncio.timeout(WITHIN * 2):
            await publish_once_routable(stage.bus, make_message("put-1"))
        assert await inbox.next() == "put: put-1"
