"""Store schedules with everything that hangs on them, for commands and for schedules from code.

Bound → stored: the events of a schedule are received before it is there. A repeat corrects what a crash in
between leaves.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from warrener_calendar.ticks import check
from warrener_calendar.zones import database_version
from warrener_contracts.events import SchedulePutData
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.decisions.ticks import plan_first_tick
from warrener_scheduler.triggers.bindings import TriggerBindings
from warrener_store import Store
from warrener_store.schedules.rows import ScheduleRow

_log = get_logger("putting")


class PutRequest(NamedTuple):
    """A schedule to store, and the time of its put."""

    spec: SchedulePutData
    at: datetime


class ScheduleWriter:
    """Says which schedules are refused, and then stores the others."""

    def __init__(self, store: Store, clock: Clock, bindings: TriggerBindings) -> None:
        self._store = store
        self._clock = clock
        self._bindings = bindings

    async def refusals(self, puts: Sequence[PutRequest]) -> list[str | None]:
        """Return why each of these is refused; None if it is not."""
        problems = [_find_problem(put) for put in puts]
        sound = [put.spec for put, problem in zip(puts, problems, strict=True) if problem is None]
        refused = await self._bindings.refusals(sound)
        return [problem or refused.get(put.spec.name) for put, problem in zip(puts, problems, strict=True)]

    async def save(self, puts: Sequence[PutRequest]) -> None:
        """Store schedules; one that is stored already, or older than the stored one, changes nothing."""
        if not puts:
            return
        now, version = self._clock.now(), database_version()
        rows = (ScheduleRow(definition=put.spec, put_at=put.at, zone_version=version) for put in puts)
        await self._store.put_schedules([plan_first_tick(row, now) for row in rows])
        await self._bindings.sync()


def _find_problem(put: PutRequest) -> str | None:
    """Return why a schedule is refused by itself. One that we fail at is refused, and the others go on."""
    try:
        check(put.spec, put.at)
    except ValueError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - one schedule must not stop the others
        _log.exception(
            "A schedule could not be checked: a bug.", action="schedules.check_bug", schedule=put.spec.name
        )
        return f"the scheduler failed at it: {type(error).__name__}: {error}"
    return None
