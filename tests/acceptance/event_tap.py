"""What the services of a warren say to the world or to each other, heard by a queue of the test's own."""

import asyncio
from typing import Any, TypeVar
from uuid import uuid4

import aiormq

from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import Event

E = TypeVar("E", bound=Event[Any])


class EventTap:
    """Hears all that is published to `exchange` under `key` from now on."""

    def __init__(self, url: str, exchange: str, key: str = "#") -> None:
        self._url, self._exchange, self._key = url, exchange, key
        self._queue = f"ear.{uuid4().hex[:12]}"
        self._events: list[Event[Any]] = []
        asyncio.run(self._open())

    def received(self, kind: type[E]) -> list[E]:
        """The events of this kind so far."""
        asyncio.run(self._fetch())
        return [event for event in self._events if isinstance(event, kind)]

    async def _open(self) -> None:
        connection = await aiormq.connect(self._url)
        try:
            channel = await connection.channel()
            await channel.queue_declare(self._queue, durable=True, arguments={"x-expires": 600_000})
            await channel.queue_bind(self._queue, self._exchange, self._key)
        finally:
            await connection.close()

    async def _fetch(self) -> None:
        connection = await aiormq.connect(self._url)
        try:
            channel = await connection.channel()
            while (message := await channel.basic_get(self._queue, no_ack=True)).body or message.delivery_tag:
                found = decode(message.body, message.header.properties.content_type)
                self._events += [one.event for one in found if isinstance(one, DecodedEvent)]
        finally:
            await connection.close()
