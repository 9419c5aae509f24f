"""Getting letters to the broker: until they are confirmed, or the caller's patience ends."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence

from warrener_client.errors import ClientClosed, Unroutable
from warrener_contracts.letters import Letter, gathered
from warrener_contracts.topology import Topology
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.publishing import Unroutable as NobodyKeepsThem
from warrener_runtime.publishing import publish_all


class Post:
    """Publishes letters; a full queue slows it, a lost connection makes it try again, nothing is dropped."""

    def __init__(self, bus: Bus, topology: Topology, clock: Clock) -> None:
        self._bus = bus
        self._topology = topology
        self._clock = clock
        self._in_flight: set[str] = set()
        self._sending: set[asyncio.Task[None]] = set()

    async def send(self, letters: Sequence[Letter], patience: float | None) -> None:
        """Return when the broker has all of them safe, in as few messages as they fit. Raises Unroutable,
        ClientClosed, and TimeoutError when `patience` ends before that (None: never)."""
        named = [self._named(letter) for letter in gathered(letters)]
        try:
            async with asyncio.timeout(patience):
                await self._until_closed(self._deliver(named))
        finally:
            self._in_flight.difference_update(letter.message_id for letter in named)

    async def close(self) -> None:
        """Give up what is not confirmed yet; those who wait for it get ClientClosed."""
        for task in self._sending:
            task.cancel()
        if self._sending:
            await asyncio.wait(self._sending)

    def _named(self, letter: Letter) -> Letter:
        """Two letters in flight must not share a message id: the broker's answers would be mixed up."""
        name, repeat = letter.message_id, 1
        while name in self._in_flight:
            repeat += 1
            name = f"{letter.message_id}~{repeat}"
        self._in_flight.add(name)
        return letter if name == letter.message_id else letter._replace(message_id=name)

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

    async def _deliver(self, letters: Iterable[Letter]) -> None:
        try:
            await publish_all(self._bus, list(letters), clock=self._clock)
        except NobodyKeepsThem as error:
            # Somebody deleted the queue while we were connected: it is ours to declare, so that requests are
            # kept.
            await self._bus.declare(self._topology)
            lost = {letter.message_id for letter in error.letters}
            await self._again([letter for letter in letters if letter.message_id in lost])

    async def _again(self, letters: Sequence[Letter]) -> None:
        try:
            await publish_all(self._bus, letters, clock=self._clock)
        except NobodyKeepsThem as error:
            raise Unroutable(
                f"expected a queue for {letters[0].exchange} {letters[0].routing_key}, got none even after "
                "declaring it: run `warrener topology --check`"
            ) from error
