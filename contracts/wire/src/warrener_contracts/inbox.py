"""Decode the messages of a queue in steps, so that large ones do not delay heartbeats and health checks."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from warrener_contracts.codec import DecodedEvent, DecodeFailure, decode_parts
from warrener_contracts.topology import MAX_EVENTS, MAX_MESSAGE

_EVENTS_PER_STEP = 250
"""Events that are decoded before the event loop may run."""


class ReceivedMessage(Protocol):
    """A delivery of a queue."""

    @property
    def body(self) -> bytes: ...
    @property
    def content_type(self) -> str | None: ...


M = TypeVar("M", bound=ReceivedMessage)


async def decode_all(
    messages: Iterable[M], *, limit: int = MAX_MESSAGE, max_events: int = MAX_EVENTS
) -> list[tuple[M, Sequence[DecodedEvent | DecodeFailure]]]:
    """Decode each of these messages as `decode` does, in order."""
    read: list[tuple[M, Sequence[DecodedEvent | DecodeFailure]]] = []
    events = 0
    for message in messages:
        found: list[DecodedEvent | DecodeFailure] = []
        parts = decode_parts(message.body, message.content_type, limit=limit, max_events=max_events)
        for index, part in enumerate(parts):
            found += part
            events += len(part)
            if index or events >= _EVENTS_PER_STEP:  # further parts are decoded event by event, which is slow
                events = 0
                await asyncio.sleep(0)
        read.append((message, found))
    return read
