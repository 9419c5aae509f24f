"""What both databases are asked about schedules in the same words."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from warrener_store.records.codec import ColumnCodec
from warrener_store.schedules.records import tick_from_row
from warrener_store.schedules.rows import TickRow


class ScheduleReads(ABC):
    """Questions of the port; a database adds how a statement is run and in what form it gives values."""

    codec: ColumnCodec

    @abstractmethod
    async def _query(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        """Run the statement of this name, which changes nothing."""

    async def next_schedule_wake(self) -> datetime | None:
        """The earliest `wake_at` of all schedules and ticks."""
        found: datetime | None = self.codec.decode_moment((await self._query("next_schedule_wake"))[0][0])
        return found

    async def ticks_of(self, schedule: str, limit: int = 50) -> list[TickRow]:
        """The ledger of one schedule, the newest nominal time first."""
        return [
            tick_from_row(values, self.codec) for values in await self._query("ticks_of", schedule, limit)
        ]

    async def ticks_between(self, schedule: str, begin: datetime, end: datetime) -> list[TickRow]:
        """The ledger of one schedule from `begin` to `end`, both included, in order."""
        span = self.codec.encode_moment(begin), self.codec.encode_moment(end)
        return [
            tick_from_row(values, self.codec)
            for values in await self._query("ticks_between", schedule, *span)
        ]
