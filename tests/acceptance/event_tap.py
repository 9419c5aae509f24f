"""Events that the services of a warren publish, received by a queue of the test's own."""

from typing import Any, TypeVar
from uuid import uuid4

from aiormq.abc import AbstractChannel
from tests.broker_access import on_broker, take_events

from warrener_contracts.events import Event

E = TypeVar("E", bound=Event[Any])


class EventTap:
    """Receives all that is published to `exchange` under `key` from now on."""

    def __init__(self, url: str, exchange: str, key: str = "#") -> None:
        self._url, self._queue = url, f"tap.{uuid4().hex[:12]}"
        self._events: list[Event[Any]] = []

        async def declare(channel: AbstractChannel) -> None:
            await channel.queue_declare(self._queue, durable=True, arguments={"x-expires": 600_000})
            await channel.queue_bind(self._queue, exchange, key)

        on_broker(url, declare)

    def received(self, kind: type[E]) -> list[E]:
        """The events of this kind so far."""
        self._events += take_events(self._url, self._queue)
        return [event for event in self._events if isinstance(event, kind)]
