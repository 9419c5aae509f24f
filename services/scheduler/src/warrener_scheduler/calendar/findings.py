"""What the owner of a schedule may not have meant. Pure: nothing is asked of anybody."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice, pairwise

from warrener_contracts.day_rules import BusinessDaysRule, DaysRule
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import ScheduleChoices, MisfirePolicy, OnceRule, OverlapPolicy, DstOverlap, DstGap
from warrener_contracts.triggers import TriggerRule
from warrener_scheduler.calendar.clock_meetings import Meeting, meetings
from warrener_scheduler.calendar.combined import leaves
from warrener_scheduler.calendar.ticks import check, nominal_times
from warrener_scheduler.calendar.zones import zone
from warrener_scheduler.clock.tick_names import check_arguments

YEARS = 5
"""So far clock changes are looked at."""
_YEAR = timedelta(days=366)
_SOON = timedelta(days=30)
_HOLIDAYS_LAST = timedelta(days=180)
_LOOKED_AT = 1000  # ticks, for the shortest time between two
_NAMED = 3  # dates in a sentence; the data has all of them


@dataclass(frozen=True, slots=True)
class Finding:
    """One warning: a word for programs, a sentence for people, and what it is about, date by date."""

    kind: str
    text: str
    dates: tuple[dict[str, str], ...] = field(default=())


def warnings_of(
    asked: SchedulePutData,
    now: datetime,
    *,
    put_at: datetime | None = None,
    durations: Sequence[timedelta] = (),
) -> list[Finding]:
    """What to warn of; nothing if all is well. `durations`: of finished jobs, from the tick to the end."""
    try:
        check(asked, put_at or now)
        check_arguments(asked)
    except ValueError as error:
        return [Finding("refused", f"it would be refused: {error}")]
    if isinstance(asked.rule, TriggerRule):
        return []  # it has no times
    ticks = list(islice(nominal_times(asked, put_at or now, now), _LOOKED_AT))
    if not ticks:
        return [Finding("over", "it never ticks again: the last of its ticks is past")]
    gap = min((later - earlier for earlier, later in pairwise(ticks)), default=None)
    return [
        *_bounds(asked, ticks, now),
        *_clock_changes(asked, now),
        *_holidays(asked, now),
        *_jitter(asked.choices, gap),
        *_catching_up(asked.choices),
        *_overlaps(asked.choices, gap, durations),
    ]


def _bounds(asked: SchedulePutData, ticks: Sequence[datetime], now: datetime) -> Iterator[Finding]:
    choices, once = asked.choices, isinstance(asked.rule, OnceRule)
    if choices.start is not None and choices.start > now + _SOON:
        yield Finding(
            "starts-late", f"it does not tick before its start; the first tick is at {ticks[0]:%F %T} UTC"
        )
    if choices.end is None or once or len(ticks) == _LOOKED_AT:
        return
    if choices.start is not None and len(ticks) == 1 and choices.start > now:
        yield Finding("bounds", f"between start and end it ticks once, at {ticks[0]:%F %T} UTC")
    elif choices.end < now + _SOON:
        yield Finding(
            "ends-soon", f"it ends soon; the last of its {len(ticks)} ticks is at {ticks[-1]:%F %T} UTC"
        )


def _holidays(asked: SchedulePutData, now: datetime) -> Iterator[Finding]:
    """Lists of holidays come from files that somebody must bring up to date."""
    for leaf in leaves(asked.rule):
        if isinstance(leaf, BusinessDaysRule) and leaf.holidays:
            last = max(leaf.holidays)
        elif isinstance(leaf, DaysRule) and len(leaf.dates) > 1:
            last = max(leaf.dates)
        else:
            continue
        if last < (now + _HOLIDAYS_LAST).date():
            yield Finding(
                "holidays-end", f"the last date that its rule names is {last}: put it with those to come"
            )


def _jitter(choices: ScheduleChoices, gap: timedelta | None) -> Iterator[Finding]:
    if choices.jitter and gap is not None and choices.jitter > gap:
        yield Finding(
            "jitter",
            f"its jitter of {_seconds(choices.jitter)} is longer than the {_seconds(gap)} between two of its "
            "ticks: they may be due in another order, and a tick counts as missed when a later one is due",
        )


def _catching_up(choices: ScheduleChoices) -> Iterator[Finding]:
    window, misfire = choices.catch_up_window, choices.misfire
    if misfire is MisfirePolicy.WINDOW and window is not None and window <= choices.grace:
        yield Finding(
            "catch-up",
            f"its catch-up window of {_seconds(window)} is not longer than its grace of "
            f"{_seconds(choices.grace)}: what is missed is too old for it already",
        )
    if misfire is not MisfirePolicy.WINDOW and window is not None:
        yield Finding("catch-up", f"it has a catch-up window, which misfire={misfire} does not look at")
    if misfire is not MisfirePolicy.ALL and choices.catch_up_most != ScheduleChoices().catch_up_most:
        yield Finding("catch-up", f"it has catch_up_most, which misfire={misfire} does not look at")


_WHEN_LONGER = {
    OverlapPolicy.ALLOW: "they run side by side",
    OverlapPolicy.SKIP: "ticks are skipped",
    OverlapPolicy.QUEUE_ONE: "ticks wait, and some are skipped",
    OverlapPolicy.QUEUE_ALL: "ticks wait, ever longer where most jobs take so long",
    OverlapPolicy.CANCEL: "jobs are cancelled before they are done",
}


def _overlaps(choices: ScheduleChoices, gap: timedelta | None, durations: Sequence[timedelta]) -> Iterator[Finding]:
    longer = sorted(one for one in durations if gap is not None and one > gap)
    if gap is not None and longer:
        yield Finding(
            "overlap",
            f"{len(longer)} of its last {len(durations)} jobs took longer than the {_seconds(gap)} that may "
            f"lie between two ticks, the longest {_seconds(longer[-1])}: with overlap={choices.overlap} "
            f"{_WHEN_LONGER[choices.overlap]}",
        )


# -- clock changes -----------------------------------------------------------------------------------------


def _clock_changes(asked: SchedulePutData, now: datetime) -> Iterator[Finding]:
    begin = max(now, asked.choices.start or now)
    end = min(now + YEARS * _YEAR, asked.choices.end or datetime.max.replace(tzinfo=UTC))
    found = sorted(meetings(asked, begin, end), key=lambda meeting: (meeting.skipped, meeting.change.at))
    for skipped, some in groupby(found, key=lambda meeting: meeting.skipped):
        yield _clock_change(asked, list(some), skipped=skipped)


def _clock_change(asked: SchedulePutData, found: Sequence[Meeting], *, skipped: bool) -> Finding:
    days = list(dict.fromkeys(f"{meeting.wall:%F}" for meeting in found))
    more = f" and {len(days) - _NAMED} more times" if len(days) > _NAMED else ""
    what = "that the clock skips" if skipped else "that comes twice"
    choice = _SKIPPED[asked.choices.skipped_hour] if skipped else _REPEATED[asked.choices.repeated_hour]
    return Finding(
        "skipped-hour" if skipped else "repeated-hour",
        f"it ticks at a time {what} in {asked.timezone} on {', '.join(days[:_NAMED])}{more}, first at "
        f"{found[0].wall:%H:%M}: {choice}",
        tuple(_dated(asked, meeting) for meeting in found),
    )


_SKIPPED = {
    DstGap.SKIP: "there is no tick then (skipped_hour=skip)",
    DstGap.AFTER: "it ticks as much later as the clock jumps (skipped_hour=after)",
    DstGap.BEFORE: "it ticks as much earlier as the clock jumps (skipped_hour=before)",
}
_REPEATED = {
    DstOverlap.FIRST: "it ticks the first time alone (repeated_hour=first)",
    DstOverlap.LAST: "it ticks the last time alone (repeated_hour=last)",
    DstOverlap.BOTH: "it ticks twice (repeated_hour=both)",
}


def _dated(asked: SchedulePutData, meeting: Meeting) -> dict[str, str]:
    here = (moment.astimezone(zone(asked.timezone)) for moment in meeting.moments)
    return {
        "wall": f"{meeting.wall:%F %T}",
        "becomes": ", ".join(f"{moment:%F %T %Z}" for moment in here) or "no tick",
    }


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():g} s"
