"""Tries of messages that may crash the process that reads them, as rows that no list of parked messages
shows.

A row whose process crashed stays, and `times` counts the tries. A process that dies after it has handled a
message, but before it deletes the row, leaves a row without meaning: `forget_stale` deletes it."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import NAMESPACE_OID, uuid5

from warrener_contracts.inbox import ReceivedMessage, arrival_address
from warrener_contracts.messages import truncate_parked
from warrener_store.parked.rows import TRIED_ALONE, ParkedFilter, ParkedMessage
from warrener_store.parked.store import ParkedMessages

_ALONE, _TOGETHER = f"{TRIED_ALONE}:", "tried_together:"
"""The beginning of the ids of tries; both have the reason TRIED_ALONE."""
STALE_AFTER = timedelta(days=1)
"""Age from which a row is without meaning: a returned message is delivered again at once. Longer than
services are stopped for, as a row that is deleted too early costs some more crashes."""
_STALE_LIMIT = 100  # rows that one call of `forget_stale` deletes


class StoredTries:
    """Tries in the state store."""

    def __init__(
        self,
        store: ParkedMessages,
        now: Callable[[], datetime],
        on_parked: Callable[[Sequence[ParkedMessage]], None] = lambda _: None,
    ) -> None:
        """`on_parked` receives what was parked, to count it."""
        self._store: ParkedMessages = store
        self._now, self._on_parked = now, on_parked

    async def tries(self, queue: str, deliveries: Sequence[ReceivedMessage]) -> list[tuple[int, int]]:
        """The number of recorded tries of each: together with others, and alone."""
        names = [_name(queue, one) for one in deliveries]
        found = {one.parked_id: one.times for one in await self._rows(names)}
        return [(found.get(_TOGETHER + name, 0), found.get(_ALONE + name, 0)) for name in names]

    async def begin(self, queue: str, deliveries: Sequence[ReceivedMessage]) -> None:
        """Record one more try of these together; of one message, alone."""
        prefix, now = _ALONE if len(deliveries) == 1 else _TOGETHER, self._now()
        await self._store.park([_try_row(prefix, queue, one, now) for one in deliveries])

    async def end(self, queue: str, deliveries: Sequence[ReceivedMessage]) -> None:
        """Delete all tries of these messages."""
        await self._store.forget_parked(await self._rows([_name(queue, one) for one in deliveries]))

    async def forget_stale(self) -> None:
        """Delete rows whose messages are no longer tried, a bounded number of them."""
        before = self._now() - STALE_AFTER
        found = await self._store.parked(
            ParkedFilter(reason=TRIED_ALONE, before=before, oldest_first=True), _STALE_LIMIT
        )
        await self._store.forget_parked(found)

    async def park(self, queue: str, delivery: ReceivedMessage, reason: str, detail: str) -> None:
        """Store the message as a parked one, and delete its tries."""
        rows = [_parked_row(queue, delivery, self._now(), reason, detail)]
        await self._store.park(rows)
        self._on_parked(rows)
        await self.end(queue, [delivery])

    async def _rows(self, names: Sequence[str]) -> list[ParkedMessage]:
        ids = [prefix + name for name in names for prefix in (_TOGETHER, _ALONE)]
        return await self._store.parked(ParkedFilter(ids=ids), len(ids)) if ids else []


def _name(queue: str, delivery: ReceivedMessage) -> str:
    return f"{queue}:{delivery.message_id or uuid5(NAMESPACE_OID, delivery.body.hex())}"


def _try_row(prefix: str, queue: str, delivery: ReceivedMessage, now: datetime) -> ParkedMessage:
    return ParkedMessage(
        parked_id=prefix + _name(queue, delivery),
        queue=queue,
        reason=TRIED_ALONE,
        detail="consumers that held it have crashed, or lost their connection",
        content_type=None,
        body=b"",
        parked_at=now,
    )


def _parked_row(
    queue: str, delivery: ReceivedMessage, now: datetime, reason: str, detail: str
) -> ParkedMessage:
    body, detail = truncate_parked(delivery.body, detail)
    exchange, key = arrival_address(delivery)
    return ParkedMessage(
        parked_id=_name(queue, delivery),
        queue=queue,
        reason=reason,
        detail=detail,
        content_type=delivery.content_type,
        body=body,
        parked_at=now,
        exchange=exchange or None,
        routing_key=key,
        message_id=delivery.message_id,
        type=delivery.type,
        headers={
            name: value
            for name, value in delivery.headers.items()
            if isinstance(value, str) and not name.startswith(("warrener-", "x-"))
        },
    )
