"""The next ticks of a schedule for people to look at, with the clock changes between them. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

from warrener_contracts.events import SchedulePutData
from warrener_scheduler.calendar.combined import uses_wall_clock
from warrener_scheduler.calendar.ticks import nominal_times
from warrener_scheduler.calendar.zones import ClockChange, changes_of, zone


def preview(spec: SchedulePutData, put_at: datetime, after: datetime, count: int) -> list[dict[str, str]]:
    """`count` ticks later than `after`, each with its wall time. For a rule by the wall clock a line tells of
    each clock change in between, and what was chosen for the times that it skips or repeats."""
    found: list[dict[str, str]] = []
    last = after
    for moment in islice(nominal_times(spec, put_at, after), count):
        found += [_clock_change_entry(change, spec) for change in _changes(spec, last, moment)]
        found.append({"at": _utc(moment), "wall": _wall(moment, spec)})
        last = moment
    return found


def _changes(spec: SchedulePutData, begin: datetime, end: datetime) -> Iterator[ClockChange]:
    """Those behind `begin` and up to `end`."""
    if not uses_wall_clock(spec.rule):
        return
    for year in range(begin.year, end.year + 1):
        yield from (change for change in changes_of(spec.timezone, year) if begin < change.at <= end)


def _clock_change_entry(change: ClockChange, spec: SchedulePutData) -> dict[str, str]:
    before, after = change.at + change.before, change.at + change.after
    jump = f"{before:%H:%M} → {after:%H:%M}"
    choices = spec.choices
    rule = (
        f"skipped times: {choices.skipped_hour}"
        if after > before
        else f"repeated times: {choices.repeated_hour}"
    )
    return {"at": _utc(change.at), "clock_change": f"the clock changes {jump} ({rule})"}


def _wall(moment: datetime, spec: SchedulePutData) -> str:
    return f"{moment.astimezone(zone(spec.timezone)):%a %Y-%m-%d %H:%M:%S %Z}"


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
