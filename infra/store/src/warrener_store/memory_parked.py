"""What the store in memory keeps of parked messages."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from warrener_store.parked import ParkedAt, ParkedFilter, ParkedGroup, ParkedMessage, ParkedMessages


class MemoryParked(ParkedMessages):
    """By their ids."""

    def __init__(self) -> None:
        self._parked: dict[str, ParkedMessage] = {}

    async def park(self, messages: Sequence[ParkedMessage]) -> None:
        """Keep these; one that is parked already is counted."""
        for message in {one.parked_id: one for one in reversed(messages)}.values():
            held = self._parked.get(message.parked_id)
            self._parked[message.parked_id] = (
                replace(message, times=1) if held is None else replace(held, times=held.times + 1)
            )

    async def parked(self, limit: int = 50) -> list[ParkedMessage]:
        """The newest first."""
        return [*reversed(await self.list_parked(ParkedFilter(), len(self._parked)))][:limit]

    async def list_parked(
        self, which: ParkedFilter, limit: int, after: ParkedAt | None = None
    ) -> list[ParkedMessage]:
        """The oldest first, from behind `after` on."""
        found = sorted(
            (one for one in self._parked.values() if which.has(one)),
            key=lambda one: (one.parked_at, one.parked_id),
        )
        return [one for one in found if after is None or (one.parked_at, one.parked_id) > after][:limit]

    async def group_parked(self, which: ParkedFilter) -> list[ParkedGroup]:
        """How many there are, by queue and reason."""
        found = sorted(
            (one for one in self._parked.values() if which.has(one)), key=lambda one: (one.queue, one.reason)
        )
        groups = (
            (key, [one.parked_at for one in of_it])
            for key, of_it in groupby(found, lambda one: (one.queue, one.reason))
        )
        return [ParkedGroup(*key, len(times), min(times), max(times)) for key, times in groups]

    async def forget_parked(self, messages: Sequence[ParkedMessage]) -> None:
        """Delete these. One that was parked once more since stays."""
        for message in messages:
            held = self._parked.get(message.parked_id)
            if held is not None and (held.times, held.parked_at) == (message.times, message.parked_at):
                del self._parked[message.parked_id]
