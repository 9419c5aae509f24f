"""Commands: queues of low traffic, whose messages are carried out one at a time.

A service describes its queue as `CommandQueue` and leaves the consuming to a carrier: FastStream on RabbitMQ
(`faststream_consumer`), or any bus (`consume_by_bus`).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from warrener_runtime.bus.port import Bus, Subscription
from warrener_runtime.bus.types import Delivery, ExchangeSpec, QueueSpec
from warrener_runtime.clock import Clock
from warrener_runtime.lifecycle.components import Component
from warrener_runtime.lifecycle.consumer import Consumer
from warrener_runtime.lifecycle.crashed_readers import CrashCounts, IsolatingHandler
from warrener_runtime.telemetry.metric_names import CONSUMED_MESSAGES
from warrener_runtime.telemetry.metrics import Metrics

PREFETCH = 1
"""One at a time, in their order: a trigger finds the schedule that was put before it."""
SUSPECT_COMMANDS_AFTER = 1
"""Returns after which the tries of a command are stored. The queue gives a command up after few."""


class MessageRoute(Protocol):
    """One kind of command."""

    def accepts(self, events: Any) -> bool:
        """True if the decoded message has this kind of command alone."""
        ...

    async def carry_out(self, events: Any) -> None:
        """Carry out an accepted message. Repeatable; raises only if the infrastructure fails."""
        ...


class MessageInbox(Protocol):
    """Decodes and carries out the messages of a queue."""

    @property
    def routes(self) -> Sequence[MessageRoute]: ...

    async def decode(self, message: Delivery) -> Any:
        """Decode a message. Raises nothing."""
        ...

    async def carry_out(self, events: Any) -> None:
        """Carry out any decoded message, also one that no route accepts. As `MessageRoute.carry_out`."""
        ...


class MeasuredInbox:
    """An inbox that counts the messages that it decodes: each is decoded once, whichever carrier consumes."""

    def __init__(self, inner: MessageInbox, queue: str, metrics: Metrics) -> None:
        self._inner, self._queue = inner, queue
        self._consumed = metrics.counter(CONSUMED_MESSAGES)

    @property
    def routes(self) -> Sequence[MessageRoute]:
        return self._inner.routes

    async def decode(self, message: Delivery) -> Any:
        self._consumed.add(1, self._queue)
        return await self._inner.decode(message)

    async def carry_out(self, events: Any) -> None:
        await self._inner.carry_out(events)


@dataclass(frozen=True, slots=True)
class CommandQueue:
    """A queue of commands and what its consumer needs.

    `tries` protects from messages that crash their reader, `probe` succeeds if commands can be carried out.
    """

    name: str
    queue: QueueSpec
    inbox: MessageInbox
    tries: CrashCounts
    probe: Callable[[], Awaitable[None]]
    clock: Clock
    give_up_after: float | None = None


class QueueTopology(NamedTuple):
    """A queue to declare, without exchanges."""

    queues: Sequence[QueueSpec]
    exchanges: Sequence[ExchangeSpec] = ()


CommandCarrier = Callable[[CommandQueue, Bus], Component]
"""Makes the component that consumes a queue of commands."""


def consume_by_bus(commands: CommandQueue, bus: Bus) -> Component:
    """Consume a queue of commands by a bus, such as the one in memory."""
    inbox = commands.inbox

    async def handle(subscription: Subscription, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            await inbox.carry_out(await inbox.decode(delivery))
            await subscription.ack([delivery])

    return Consumer(
        commands.name,
        bus,
        commands.queue.name,
        PREFETCH,
        IsolatingHandler(commands.queue.name, handle, commands.tries, suspect_after=SUSPECT_COMMANDS_AFTER),
        clock=commands.clock,
        give_up_after=commands.give_up_after,
        probe=commands.probe,
    )
