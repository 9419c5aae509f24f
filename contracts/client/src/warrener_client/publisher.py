"""Getting letters to the broker: until they are confirmed, or the caller's patience ends."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence

from warrener_client.errors import ClientClosed, RequestUnroutable
from warrener_contracts.messages import Message, batch_messages
from warrener_contracts.topology import Topology
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.publishing import UnroutableMessages, publish_all


class RequestPublisher:
    """Publishes letters; a full queue slows it, a lost connection makes it try again, nothing is dropped."""

    def __init__(self, bus: Bus, topology: Topology, clock: Clock) -> None:
        self._bus = bus
        self._topology = topology
        self._clock = clock
        self._in_flight: set[str] = set()
        self._sending: set[asyncio.Task[None]] = set()

    async def send(self, messages: Sequence[Message], confirm_timeout: float | None) -> None:
        """Return when the broker has all of them safe, in as few messages as they fit. Raises Unroutable,
        ClientClosed, and TimeoutError when `confirm_timeout` ends before that (None: never)."""
        batches = [self._with_unique_id(message) for message in batch_messages(messages)]
        try:
            async with asyncio.timeout(confirm_timeout):
                await self._until_closed(self._deliver(batches))
        finally:
            self._in_flight.difference_update(message.message_id for message in batches)

    async def close(self) -> None:
        """Give up what is not confirmed yet; those who wait for it get ClientClosed."""
        for task in self._sending:
            task.cancel()
        if self._sending:
            await asyncio.wait(self._sending)

    def _with_unique_id(self, message: Message) -> Message:
        """Two letters in flight must not share a message id: the broker's answers would be mixed up."""
        name, repeat = message.message_id, 1
        while name in self._in_flight:
            repeat += 1
            name = f"{message.message_id}~{repeat}"
        self._in_flight.add(name)
        return message if name == message.message_id else message._replace(message_id=name)

    async def _until_closed(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._sending.add(task)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():  # the caller was cancelled, or ran out of patience
                task.cancel()
                await asyncio.wait({task})
                raise
            raise ClientClosed(
                "expected an open client until the broker's confirm, got a closed one: "
                "ask again with the same id (a repeat never makes a second job)"
            ) from None
        finally:
            self._sending.discard(task)

    async def _deliver(self, messages: Iterable[Message]) -> None:
        try:
            await publish_all(self._bus, list(messages), clock=self._clock)
        except UnroutableMessages as error:
            # Somebody deleted the queue while we were connected: it is ours to declare, so that requests are
            # kept.
            await self._bus.declare(self._topology)
            lost = {message.message_id for message in error.messages}
            await self._retry_once([message for message in messages if message.message_id in lost])

    async def _retry_once(self, messages: Sequence[Message]) -> None:
        try:
            await publish_all(self._bus, messages, clock=self._clock)
        except UnroutableMessages as error:
            raise RequestUnroutable(
                f"expected a queue for {messages[0].exchange} {messages[0].routing_key}, got none even after "
                "declaring it: run `warrener topology --check`"
            ) from error
