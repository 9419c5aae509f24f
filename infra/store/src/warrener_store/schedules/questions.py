"""What both databases are asked about schedules in the same words."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from warrener_store.records.form import Form
from warrener_store.schedules.records import tick_in
from warrener_store.schedules.rows import TickRow


class ScheduleQuestions(ABC):
    """Questions of the port; a database adds how a statement is run and in what form it gives values."""

    form: Form

    @abstractmethod
    async def _ask(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        """Run the statement of this name, which changes nothing."""

    async def next_schedule_wake(self) -> datetime | None:
        """The earliest `wake_at` of all schedules and ticks."""
        found: datetime | None = self.form.moment_in((await self._ask("next_schedule_wake"))[0][0])
        return found

    async def ticks_of(self, schedule: str, limit: int = 50) -> list[TickRow]:
        """The ledger of one schedule, the newest nominal time first."""
        return [tick_in(values, self.form) for values in await self._ask("ticks_of", schedule, limit)]

    async def ticks_between(self, schedule: str, begin: datetime, end: datetime) -> list[TickRow]:
        """The ledger of one schedule from `begin` to `end`, both included, in order."""
        span = self.form.moment_out(begin), self.form.moment_out(end)
        return [tick_in(values, self.form) for values in await self._ask("ticks_between", schedule, *span)]
