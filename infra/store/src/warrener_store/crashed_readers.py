"""Tries of messages that may end the process that reads them, kept as parked messages: where each try ended
its process, the row is there already, and `times` says how often."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import NAMESPACE_OID, uuid5

from warrener_store.parked import ParkedFilter, ParkedMessage, ParkedMessages
from warrener_store.port import StateStore

REASON = "crashed_readers"


class Received(Protocol):
    """A message as it was delivered."""

    @property
    def body(self) -> bytes: ...
    @property
    def exchange(self) -> str: ...
    @property
    def routing_key(self) -> str: ...
    @property
    def content_type(self) -> str | None: ...
    @property
    def message_id(self) -> str | None: ...
    @property
    def type(self) -> str | None: ...
    @property
    def headers(self) -> Mapping[str, object]: ...


class KeptTries:
    """In the state store."""

    def __init__(self, store: StateStore, now: Callable[[], datetime]) -> None:
        self._store: StateStore = store
        self._now = now

    async def tries(self, queue: str, deliveries: Sequence[Received]) -> list[int]:
        """How many tries of each are written down."""
        ids = [_id(queue, one) for one in deliveries]
        found = {one.parked_id: one.times for one in await _of(self._store, ids)}
        return [found.get(parked_id, 0) for parked_id in ids]

    async def begin(self, queue: str, delivery: Received) -> None:
        """Write down one more."""
        await self._store.park([_row(queue, delivery, self._now())])

    async def end(self, queue: str, delivery: Received) -> None:
        """Cross all of them out."""
        found = await _of(self._store, [_id(queue, delivery)])
        await self._store.forget_parked(found)


async def _of(store: ParkedMessages, ids: Sequence[str]) -> list[ParkedMessage]:
    return await store.list_parked(ParkedFilter(ids=ids), len(ids)) if ids else []


def _id(queue: str, delivery: Received) -> str:
    named = delivery.message_id or str(uuid5(NAMESPACE_OID, delivery.body.hex()))
    return f"{REASON}:{queue}:{named}"


def _row(queue: str, delivery: Received, now: datetime) -> ParkedMessage:
    return ParkedMessage(
        parked_id=_id(queue, delivery),
        queue=queue,
        reason=REASON,
        detail="it is handled alone, for consumers that held it have crashed; where it stays here, the"
        " processes that handled it alone have crashed too",
        content_type=delivery.content_type,
        body=delivery.body,
        parked_at=now,
        exchange=delivery.exchange or None,
        routing_key=delivery.routing_key,
        message_id=delivery.message_id,
        type=delivery.type,
        headers={
            name: value
            for name, value in delivery.headers.items()
            if isinstance(value, str) and not name.startswith(("warrener-", "x-"))
        },
    )
