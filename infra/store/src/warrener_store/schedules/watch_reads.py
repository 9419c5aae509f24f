"""What both databases are asked about watched schedules and the ledger in the same words."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from warrener_store.records.codec import ColumnCodec
from warrener_store.schedules.records import schedule_from_row
from warrener_store.schedules.rows import ScheduleRow


class WatchReads(ABC):
    """Questions of the ports; a database adds how a statement is run and in what form it gives values."""

    codec: ColumnCodec

    @abstractmethod
    async def _query(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        """Run the statement of this name, which changes nothing."""

    async def late_schedules(self, before: datetime, until: datetime, limit: int) -> list[ScheduleRow]:
        """Schedules whose next tick, or next look, was due at `before`."""
        moments = (self.codec.encode_moment(before), self.codec.encode_moment(until))
        found = await self._query("late_schedules", *moments, limit)
        return [schedule_from_row(values, self.codec) for values in found]

    async def last_success(self, schedule: str) -> datetime | None:
        """The newest of the last MAX_RUNS_EXAMINED nominal times whose job has succeeded."""
        found: datetime | None = self.codec.decode_moment((await self._query("last_success", schedule))[0][0])
        return found

    async def ticked_schedules(self, after: str, limit: int) -> list[str]:
        """Names that the ledger has rows of, later than `after`, in order."""
        return [str(row[0]) for row in await self._query("ticked_schedules", after, limit)]
