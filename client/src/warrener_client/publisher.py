"""Publish requests until the broker confirms them: single batches, and pipelines of many."""

import asyncio
import os
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Sequence,
)
from itertools import islice
from typing import Any, TypeVar, get_args
from urllib.parse import unquote, urlsplit

from warrener_client.errors import ClientClosed, RequestUnroutable
from warrener_contracts.messages import Message, batch_messages
from warrener_contracts.outbox import missing_topology
from warrener_runtime.bus.port import Bus
from warrener_runtime.bus.types import DeclareMode
from warrener_runtime.clock import Clock
from warrener_runtime.keys import MessageSigner
from warrener_runtime.namespace import DEFAULT_NAMESPACE, validate_namespace
from warrener_runtime.publishing import UnroutableMessages, publish_all
from warrener_runtime.running_up import announce_use, find_running_up
from warrener_runtime.secret_files import read_secret

A = TypeVar("A")
J = TypeVar("J")

DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672/"
BATCH_SIZE = 500
"""Requests of one batch, that is of one wait for confirms."""
MAX_BATCHES_IN_FLIGHT = 4
"""Batches: the broker confirms one while the next are encoded."""


class RequestPublisher:
    """Publishes messages. A full queue slows it, a lost connection is retried, and nothing is dropped."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock
        self._in_flight: set[str] = set()
        self._sending: set[asyncio.Task[None]] = set()

    async def send(self, messages: Sequence[Message], confirm_timeout: float | None) -> None:
        """Publish in as few messages as possible; return when the broker has confirmed all.

        Raises RequestUnroutable, ClientClosed, and TimeoutError after `confirm_timeout` seconds (None: no
        timeout).
        """
        batches = [self._with_unique_id(message) for message in batch_messages(messages)]
        try:
            async with asyncio.timeout(confirm_timeout):
                await self._until_closed(self._deliver(batches))
        finally:
            self._in_flight.difference_update(message.message_id for message in batches)

    async def close(self) -> None:
        """Abandon unconfirmed messages; their callers get ClientClosed."""
        for task in self._sending:
            task.cancel()
        if self._sending:
            await asyncio.wait(self._sending)

    def _with_unique_id(self, message: Message) -> Message:
        """Make the id unique among messages in flight, so that the broker's confirms cannot be confused."""
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
            if not task.cancelled():  # the caller was cancelled, or its timeout is over
                task.cancel()
                await asyncio.wait({task})
                raise
            raise ClientClosed(
                "expected an open client until the broker's confirm, got a closed one: "
                "repeat the request with the same id (it never makes a second job)"
            ) from None
        finally:
            self._sending.discard(task)

    async def _deliver(self, messages: Sequence[Message]) -> None:
        try:
            await publish_all(self._bus, messages, clock=self._clock, missing=missing_topology)
        except UnroutableMessages as error:
            why = error.why or "it was declared again in vain: run `warrener topology --check`"
            raise RequestUnroutable(
                f"expected a queue for {error.messages[0].exchange} {error.messages[0].routing_key},"
                f" got none; {why}"
            ) from error


async def pipeline(
    items: Iterable[A] | AsyncIterable[A],
    send: Callable[[Sequence[A]], Coroutine[Any, Any, list[J]]],
    batch: int,
) -> AsyncGenerator[J]:
    """Send all in batches of `batch`, at most MAX_BATCHES_IN_FLIGHT unconfirmed; yield the results in order.

    If the caller stops early, unconfirmed batches are abandoned (they may or may not have been sent).
    """
    sending: deque[asyncio.Task[list[J]]] = deque()
    try:
        async for some in _batches(items, batch):
            if len(sending) >= MAX_BATCHES_IN_FLIGHT:
                for each in await sending[0]:
                    yield each
                sending.popleft()
            sending.append(asyncio.create_task(send(some)))
        while sending:
            for each in await sending[0]:
                yield each
            sending.popleft()
    finally:
        for task in sending:
            task.cancel()
        if sending:
            await asyncio.gather(*sending, return_exceptions=True)


async def _batches(items: Iterable[A] | AsyncIterable[A], size: int) -> AsyncIterator[list[A]]:
    if not isinstance(items, AsyncIterable):
        source = iter(items)
        while portion := list(islice(source, size)):
            yield portion
        return
    some: list[A] = []
    async for item in items:
        some.append(item)
        if len(some) >= size:
            yield some
            some = []
    if some:
        yield some


def open_client_bus(
    url: str | None,
    name: str,
    namespace: str | None,
    connect_timeout: float | None,
    signer: MessageSigner | None,
    *,
    declare: DeclareMode | None,
    user_id: str | None,
) -> tuple[Bus, str]:
    """Make the bus of a client; and return the user that the URL names."""
    from warrener_runtime.bus import open_bus  # noqa: PLC0415 - a given bus needs no RabbitMQ client

    url = url or read_secret("WARRENER_BROKER_URL", os.environ)
    found = find_running_up() if url is None else None
    if found is not None:
        url = found.broker_url
        announce_use(url)
    namespace = namespace or (found.namespace if found else os.environ.get("WARRENER_NAMESPACE"))
    namespace = namespace or DEFAULT_NAMESPACE
    try:
        validate_namespace(namespace)
    except ValueError as error:
        raise ValueError(f"namespace: expected {error}, got {namespace!r}") from None
    given = declare or os.environ.get("WARRENER_DECLARE") or "if-missing"
    mode: DeclareMode | None = next((one for one in get_args(DeclareMode) if one == given), None)
    if mode is None:
        raise ValueError(f"declare: expected if-missing or never, got {given!r}; correct it")
    url = url or DEFAULT_URL
    bus = open_bus(
        url,
        name=name,
        namespace=namespace,
        connect_timeout=connect_timeout,
        connections=1,
        signer=signer,
        declare=mode,
        user_id=user_id,
    )
    return bus, unquote(urlsplit(url).username or "")
