"""How much of what has arrived is handled at once. Pure."""

from collections.abc import Iterable, Iterator

from warrener_runtime.bus.port import Delivery

CHUNK_BYTES = 512 * 1024
"""A message may hold many events: what a portion costs goes by its bytes, however many messages that is."""


def split_into_chunks(batch: Iterable[Delivery], max_messages: int) -> Iterator[list[Delivery]]:
    """`batch` in order, in parts of at most `max_messages` messages and CHUNK_BYTES; none is empty, and a
    message that is larger by itself is a part of its own."""
    part: list[Delivery] = []
    size = 0
    for delivery in batch:
        if part and (len(part) >= max_messages or size + len(delivery.body) > CHUNK_BYTES):
            yield part
            part, size = [], 0
        part.append(delivery)
        size += len(delivery.body)
    if part:
        yield part
