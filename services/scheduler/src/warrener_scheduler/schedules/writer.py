"""putting: schedules are kept, with all that hangs on them, whoever has asked for them.

Bound → kept → watched: what they wait for is heard before they are there, and what is expected of them is
kept in step afterwards. A crash in between leaves nothing that a repeat does not mend.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from warrener_contracts.events import SchedulePutData
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.calendar.ticks import check
from warrener_scheduler.calendar.zone_database import database_version
from warrener_scheduler.schedules.expectations import watches_of
from warrener_scheduler.schedules.template_variables import check_arguments
from warrener_scheduler.schedules.tick_decisions import plan_first_tick
from warrener_scheduler.triggers.bindings import TriggerBindings
from warrener_store import Store
from warrener_store.schedules.rows import ScheduleRow

_log = get_logger("putting")


class PutRequest(NamedTuple):
    """A schedule as it shall be, and when that was said."""

    spec: SchedulePutData
    at: datetime


class ScheduleWriter:
    """Asked first which cannot be kept, and then to keep the others."""

    def __init__(self, store: Store, clock: Clock, bindings: TriggerBindings) -> None:
        self._store = store
        self._clock = clock
        self._bindings = bindings

    async def refusals(self, puts: Sequence[PutRequest]) -> list[str | None]:
        """Why each of these cannot be kept; None where it can."""
        problems = [_find_problem(put) for put in puts]
        sound = [put.spec for put, problem in zip(puts, problems, strict=True) if problem is None]
        refused = await self._bindings.refusals(sound)
        return [problem or refused.get(put.spec.name) for put, problem in zip(puts, problems, strict=True)]

    async def save(self, puts: Sequence[PutRequest]) -> None:
        """Keep these; what says the same again, or is older than what is there, changes nothing."""
        if not puts:
            return
        now, version = self._clock.now(), database_version()
        rows = (ScheduleRow(asked=put.spec, put_at=put.at, zone_version=version) for put in puts)
        await self._store.put_schedules([plan_first_tick(row, now) for row in rows])
        await self._update_watches({put.spec.name for put in puts})
        await self._bindings.sync()

    async def _update_watches(self, names: Collection[str]) -> None:
        """Keep in step what the supervisor watches them for, by what is kept: a put may be older."""
        watches = watches_of((await self._store.schedules(names)).values())
        await self._store.put_watches(watches, set(names) - {row.name for row in watches})


def _find_problem(put: PutRequest) -> str | None:
    """Why it cannot be kept, as far as it says itself; where we ourselves fail at it, the others go on."""
    try:
        check(put.spec, put.at)
        check_arguments(put.spec)
    except ValueError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - one schedule must not stop the others
        _log.exception(
            "A schedule could not be looked at: a bug.", action="putting.bug", schedule=put.spec.name
        )
        return f"the scheduler failed at it: {type(error).__name__}: {error}"
    return None
