"""Next ticks of schedules: bounded, and computed once for all readers, beside the event loop.

A page of a schedule is rendered again and again, while its next ticks change only as they pass. So an answer
of the calendar is shared until few of its ticks are left, or its definition changes.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from time import monotonic
from typing import NamedTuple
from zoneinfo import ZoneInfo

from warrener.errors import CommandError
from warrener.schedules.calendar import UpcomingTick, preview_ticks, times_between
from warrener_calendar.zones import next_change
from warrener_contracts.events import SchedulePutData
from warrener_contracts.triggers import TriggerRule

SHOWN = 10  # ticks to come that a page shows
_COMPUTED = 40
_DAYS = timedelta(days=35)
_MAX_DAY_TICKS = 2000  # the calendar shows the days that they reach
_SHARED_FOR = 3600.0  # seconds
_TROUBLE_SHARED_FOR = 30.0
_AROUND = (timedelta(hours=3), timedelta(days=3), timedelta(days=40))
_AROUND_TICKS = 3  # on each side of a clock change
_AROUND_COUNT = 60
_MAX_SCHEDULES = 2000  # whose ticks are remembered


class UpcomingTicks(NamedTuple):
    """Ticks to come, and their number by day in the zone of the schedule.

    `until`: the last moment up to which days are counted; `is_cut`: there are more ticks on its day.
    """

    ticks: list[UpcomingTick]
    days: Mapping[date, int]
    until: datetime | None
    trouble: str = ""
    is_cut: bool = False


class _Computed(NamedTuple):
    ticks: list[UpcomingTick]
    times: list[datetime]
    until: datetime
    expires_at: float
    trouble: str = ""


class TickCalendar:
    """The calendar's answers for one console."""

    def __init__(self) -> None:
        self._computed: OrderedDict[str, _Computed] = OrderedDict()

    async def upcoming(self, definition: SchedulePutData, put_at: datetime, now: datetime) -> UpcomingTicks:
        """The ticks of a schedule that are later than `now`; none of one that waits for events."""
        if isinstance(definition.rule, TriggerRule):
            return UpcomingTicks([], {}, None)
        key = f"{put_at.isoformat()} {definition.model_dump_json()}"
        found = self._computed.get(key)
        if found is None or not _is_fresh(found, now):
            found = await self._compute(definition, put_at, now)
            self._computed[key] = found
        self._computed.move_to_end(key)
        while len(self._computed) > _MAX_SCHEDULES:
            self._computed.popitem(last=False)
        place, is_cut = ZoneInfo(definition.timezone), len(found.times) == _MAX_DAY_TICKS
        days = Counter(moment.astimezone(place).date() for moment in found.times if moment > now)
        shown: list[UpcomingTick] = []  # the clock changes among the ticks are not counted
        for tick in found.ticks:
            if tick.at > now and sum(not one.clock_change for one in shown) < SHOWN:
                shown.append(tick)
        return UpcomingTicks(shown, days, found.until, found.trouble, is_cut)

    async def _compute(self, definition: SchedulePutData, put_at: datetime, now: datetime) -> _Computed:
        end = now + _DAYS
        try:
            ticks = await asyncio.to_thread(preview_ticks, definition, _COMPUTED, put_at, now)
            times = await asyncio.to_thread(times_between, definition, put_at, now, end, _MAX_DAY_TICKS)
        except CommandError as error:
            return _Computed([], [], now, monotonic() + _TROUBLE_SHARED_FOR, str(error))
        reached = times[-1] if len(times) == _MAX_DAY_TICKS else end
        return _Computed(ticks, times, reached, monotonic() + _SHARED_FOR)


def _is_fresh(found: _Computed, now: datetime) -> bool:
    if monotonic() > found.expires_at:
        return False
    if found.trouble or len(found.ticks) < _COMPUTED:  # the rule has no further ones
        return True
    return sum(tick.at > now for tick in found.ticks) >= SHOWN


async def ticks_around_clock_change(
    definition: SchedulePutData, put_at: datetime | None, now: datetime
) -> tuple[list[UpcomingTick], datetime | None]:
    """The ticks of a definition around the next change of the clock in its zone, and that moment; no ticks of
    a rule that does not go by the clock. Raises CommandError if a scheduler would refuse it."""
    change = next_change(definition.timezone, now)
    if change.before == change.after:  # the clock of this zone never changes
        return [], None
    if isinstance(definition.rule, TriggerRule):
        return [], change.at
    for before in _AROUND:
        begin = change.at - before
        ticks = await asyncio.to_thread(preview_ticks, definition, _AROUND_COUNT, put_at or now, begin)
        place = next((place for place, one in enumerate(ticks) if one.clock_change), None)
        if place is not None and (place >= _AROUND_TICKS or before == _AROUND[-1]):
            first = max(place - _AROUND_TICKS, 0)
            return ticks[first : place + _AROUND_TICKS + 1], change.at
    return [], change.at
