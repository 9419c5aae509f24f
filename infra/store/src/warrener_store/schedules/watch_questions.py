"""What both databases are asked about watched schedules and the ledger in the same words."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from warrener_store.records.form import Form
from warrener_store.schedules.records import schedule_in
from warrener_store.schedules.rows import ScheduleRow


class WatchQuestions(ABC):
    """Questions of the ports; a database adds how a statement is run and in what form it gives values."""

    form: Form

    @abstractmethod
    async def _ask(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        """Run the statement of this name, which changes nothing."""

    async def late_schedules(self, before: datetime, until: datetime, limit: int) -> list[ScheduleRow]:
        """Schedules whose next tick, or next look, was due at `before`."""
        moments = (self.form.moment_out(before), self.form.moment_out(until))
        found = await self._ask("late_schedules", *moments, limit)
        return [schedule_in(values, self.form) for values in found]

    async def last_success(self, schedule: str) -> datetime | None:
        """The newest of the last NEWEST nominal times whose job has succeeded."""
        found: datetime | None = self.form.moment_in((await self._ask("last_success", schedule))[0][0])
        return found

    async def ticked_schedules(self, after: str, limit: int) -> list[str]:
        """Names that the ledger has rows of, later than `after`, in order."""
        return [str(row[0]) for row in await self._ask("ticked_schedules", after, limit)]
