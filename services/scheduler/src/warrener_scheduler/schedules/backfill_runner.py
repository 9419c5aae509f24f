"""backfilling: jobs of past ticks are asked for, portion by portion.

A portion is kept → the rest is asked for through the door → the request is acknowledged. A crash in between
brings the same portion again, which then finds its ticks asked for.
"""

from uuid import NAMESPACE_OID, uuid5

from warrener_contracts.events import ScheduleBackfillRequested
from warrener_contracts.messages import Message, build_message
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.dispatch_messages import SOURCE
from warrener_scheduler.schedules.backfill import batch_times, plan_batch, refusal_reason
from warrener_scheduler.schedules.template_variables import uses_last_success
from warrener_store import Store
from warrener_store.schedules.rows import ScheduleRow

_log = get_logger("backfill")


class BackfillRunner:
    """The verb for one request of a backfill."""

    def __init__(self, schedules: Store, clock: Clock) -> None:
        self._schedules = schedules
        self._clock = clock

    async def carry_out(self, event: ScheduleBackfillRequested, row: ScheduleRow) -> list[Message]:
        """Keep the next portion; returns the request for the rest. Raises ValueError for what is too much or
        has no times."""
        data, now = event.data, self._clock.now()
        if why := refusal_reason(row, data, now):
            raise ValueError(why)
        times = batch_times(row, data, now)
        if not times:
            return []
        existing = await self._schedules.ticks_between(row.name, times[0], times[-1])
        success = await self._schedules.last_success(row.name) if uses_last_success(row.asked) else None
        found = plan_batch(
            row, data, times, {tick.nominal_at: tick for tick in existing}, now, last_success=success
        )
        stored = await self._schedules.backfill_ticks(found.ticks)
        _log.info(
            "Past ticks were asked for.",
            action="backfill.kept",
            schedule=row.name,
            asked=len(stored),
            passed_over=found.passed_over,
            more=found.rest is not None,
        )
        if found.rest is None:
            return []
        again = event.model_copy(
            update={
                "id": str(uuid5(NAMESPACE_OID, f"{event.id}\n{found.rest.begin.isoformat()}")),
                "source": SOURCE,
                "time": now,
                "data": found.rest,
            }
        )
        return [build_message(again)]
