"""Pages of schedules and of their runs in both databases."""

from collections.abc import Collection
from datetime import datetime

from warrener_store.databases.session import SqlSession
from warrener_store.encoding import escape
from warrener_store.mapping import encode_text
from warrener_store.schedules.columns import SCHEDULED_RUNS, schedule_from_row
from warrener_store.schedules.port import LAST_TIME, ScheduleLists
from warrener_store.schedules.rows import ScheduledRun, ScheduleFilter, ScheduleRow


class SqlScheduleLists(SqlSession, ScheduleLists):
    """Pages of schedules and of their runs."""

    async def list_schedules(self, which: ScheduleFilter) -> list[ScheduleRow]:
        found = await self._query(
            "list_schedules",
            escape(which.after),
            encode_text(which.text),
            which.owner,
            which.job_type,
            which.paused,
            self.codec.encode_moment(which.due_before),
            which.sleeping,
            which.limit,
        )
        return [schedule_from_row(values, self.codec) for values in found]

    async def runs_of(
        self, schedules: Collection[str], limit: int, *, before: datetime = LAST_TIME
    ) -> dict[str, list[ScheduledRun]]:
        runs: dict[str, list[ScheduledRun]] = {name: [] for name in schedules}
        if runs:
            parameters = self._names(runs), limit, self.codec.encode_moment(before)
            for values in await self._query("runs_of", *parameters):
                run = SCHEDULED_RUNS.from_row(values, self.codec)
                runs[run.schedule].append(run)
        return runs
