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
from warrener_scheduler.clock.deciding import first_time
from warrener_scheduler.clock.expecting import watches_of
from warrener_scheduler.clock.tick_names import check_arguments
from warrener_scheduler.triggers.binding import Bindings
from warrener_store import Store
from warrener_store.schedules.rows import ScheduleRow

_log = get_logger("putting")


class Put(NamedTuple):
    """A schedule as it shall be, and when that was said."""

    asked: SchedulePutData
    at: datetime


class Putting:
    """Asked first which cannot be kept, and then to keep the others."""

    def __init__(self, store: Store, clock: Clock, bindings: Bindings) -> None:
        self._store = store
        self._clock = clock
        self._bindings = bindings

    async def refusals(self, puts: Sequence[Put]) -> list[str | None]:
        """Why each of these cannot be kept; None where it can."""
        problems = [_problem(put) for put in puts]
        sound = [put.asked for put, problem in zip(puts, problems, strict=True) if problem is None]
        refused = await self._bindings.refusals(sound)
        return [problem or refused.get(put.asked.name) for put, problem in zip(puts, problems, strict=True)]

    async def keep(self, puts: Sequence[Put]) -> None:
        """Keep these; what says the same again, or is older than what is there, changes nothing."""
        if not puts:
            return
        now, version = self._clock.now(), database_version()
        rows = (ScheduleRow(asked=put.asked, put_at=put.at, zone_version=version) for put in puts)
        await self._store.put_schedules([first_time(row, now) for row in rows])
        await self._watch({put.asked.name for put in puts})
        await self._bindings.follow()

    async def _watch(self, names: Collection[str]) -> None:
        """Keep in step what the supervisor watches them for, by what is kept: a put may be older."""
        watches = watches_of((await self._store.schedules(names)).values())
        await self._store.put_watches(watches, set(names) - {row.name for row in watches})


def _problem(put: Put) -> str | None:
    """Why it cannot be kept, as far as it says itself; where we ourselves fail at it, the others go on."""
    try:
        check(put.asked, put.at)
        check_arguments(put.asked)
    except ValueError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - one schedule must not stop the others
        _log.exception(
            "A schedule could not be looked at: a bug.", action="putting.bug", schedule=put.asked.name
        )
        return f"the scheduler failed at it: {type(error).__name__}: {error}"
    return None
