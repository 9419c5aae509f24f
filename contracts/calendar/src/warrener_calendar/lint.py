"""Warnings about schedules whose rules tick otherwise than their owners may think. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice, pairwise

from warrener_calendar.dst import DstTransition, find_dst_transitions
from warrener_calendar.rules import leaf_rules
from warrener_calendar.ticks import check, nominal_times
from warrener_calendar.zones import zone
from warrener_contracts import schedule_rules
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_words import MisfirePolicy, OverlapPolicy
from warrener_contracts.triggers import TriggerRule

_YEARS = 5  # of clock changes
_YEAR = timedelta(days=366)
_NEAR_FUTURE = timedelta(days=30)
_HOLIDAY_HORIZON = timedelta(days=180)
_MAX_TICKS = 1000  # in the search for the shortest time between two
_MAX_DATES_NAMED = 3  # in a sentence; the data has all of them
_WHEN_LONGER = {
    OverlapPolicy.ALLOW: "they run side by side",
    OverlapPolicy.SKIP: "ticks are skipped",
    OverlapPolicy.QUEUE_ONE: "ticks wait, and some are skipped",
    OverlapPolicy.QUEUE_ALL: "ticks wait, ever longer where most jobs take so long",
    OverlapPolicy.CANCEL: "jobs are cancelled before they are done",
}
_SKIPPED = {
    schedule_rules.DstGap.SKIP: "there is no tick then (dst_gap=skip)",
    schedule_rules.DstGap.AFTER: "it ticks as much later as the clock jumps (dst_gap=after)",
    schedule_rules.DstGap.BEFORE: "it ticks as much earlier as the clock jumps (dst_gap=before)",
}
_REPEATED = {
    schedule_rules.DstOverlap.FIRST: "it ticks the first time alone (dst_overlap=first)",
    schedule_rules.DstOverlap.LAST: "it ticks the last time alone (dst_overlap=last)",
    schedule_rules.DstOverlap.BOTH: "it ticks twice (dst_overlap=both)",
}


@dataclass(frozen=True, slots=True)
class LintWarning:
    """One warning: a kind for programs, a sentence for people, and the dates that it is about."""

    kind: str
    text: str
    dates: tuple[dict[str, str], ...] = field(default=())


def lint_schedule(
    spec: SchedulePutData,
    now: datetime,
    *,
    put_at: datetime | None = None,
    durations: Sequence[timedelta] = (),
) -> list[LintWarning]:
    """Return the warnings about a schedule. `durations`: of its finished jobs, from the tick to the end."""
    try:
        check(spec, put_at or now)
    except ValueError as error:
        return [LintWarning("refused", f"it would be refused: {error}")]
    if isinstance(spec.rule, TriggerRule):
        return []  # it has no times
    ticks = list(islice(nominal_times(spec, put_at or now, now), _MAX_TICKS))
    if not ticks:
        return [LintWarning("over", "it never ticks again: the last of its ticks is past")]
    gap = min((later - earlier for earlier, later in pairwise(ticks)), default=None)
    return [
        *_bounds(spec, ticks, now),
        *_clock_changes(spec, now),
        *_holidays(spec, now),
        *_jitter(spec.choices, gap),
        *_catching_up(spec.choices),
        *_overlaps(spec.choices, gap, durations),
    ]


def _bounds(spec: SchedulePutData, ticks: Sequence[datetime], now: datetime) -> Iterator[LintWarning]:
    choices, once = spec.choices, isinstance(spec.rule, schedule_rules.OnceRule)
    if choices.start is not None and choices.start > now + _NEAR_FUTURE:
        yield LintWarning(
            "starts-late", f"it does not tick before its start; the first tick is at {ticks[0]:%F %T} UTC"
        )
    if choices.end is None or once or len(ticks) == _MAX_TICKS:
        return
    if choices.start is not None and len(ticks) == 1 and choices.start > now:
        yield LintWarning("bounds", f"between start and end it ticks once, at {ticks[0]:%F %T} UTC")
    elif choices.end < now + _NEAR_FUTURE:
        yield LintWarning(
            "ends-soon", f"it ends soon; the last of its {len(ticks)} ticks is at {ticks[-1]:%F %T} UTC"
        )


def _holidays(spec: SchedulePutData, now: datetime) -> Iterator[LintWarning]:
    """Warn of lists of holidays that end soon: they come from files that somebody must keep up to date."""
    for leaf in leaf_rules(spec.rule):
        if isinstance(leaf, schedule_rules.BusinessDaysRule) and leaf.holidays:
            last = max(leaf.holidays)
        elif isinstance(leaf, schedule_rules.DaysRule) and len(leaf.dates) > 1:
            last = max(leaf.dates)
        else:
            continue
        if last < (now + _HOLIDAY_HORIZON).date():
            yield LintWarning(
                "holidays-end", f"the last date that its rule names is {last}: put it with those to come"
            )


def _jitter(choices: schedule_rules.ScheduleChoices, gap: timedelta | None) -> Iterator[LintWarning]:
    if choices.jitter and gap is not None and choices.jitter > gap:
        yield LintWarning(
            "jitter",
            f"its jitter of {_seconds(choices.jitter)} is longer than the {_seconds(gap)} between two of its "
            "ticks: they may be due in another order, and a tick counts as missed when a later one is due",
        )


def _catching_up(choices: schedule_rules.ScheduleChoices) -> Iterator[LintWarning]:
    window, misfire = choices.catch_up_window, choices.misfire
    if misfire is MisfirePolicy.WINDOW and window is not None and window <= choices.grace:
        yield LintWarning(
            "catch-up",
            f"its catch-up window of {_seconds(window)} is not longer than its grace of "
            f"{_seconds(choices.grace)}: what is missed is too old for it already",
        )
    if misfire is not MisfirePolicy.WINDOW and window is not None:
        yield LintWarning("catch-up", f"it has a catch-up window, which misfire={misfire} does not look at")
    if (
        misfire is not MisfirePolicy.ALL
        and choices.max_catch_up != schedule_rules.ScheduleChoices().max_catch_up
    ):
        yield LintWarning("catch-up", f"it has max_catch_up, which misfire={misfire} does not look at")


def _overlaps(
    choices: schedule_rules.ScheduleChoices, gap: timedelta | None, durations: Sequence[timedelta]
) -> Iterator[LintWarning]:
    longer = sorted(one for one in durations if gap is not None and one > gap)
    if gap is not None and longer:
        yield LintWarning(
            "overlap",
            f"{len(longer)} of its last {len(durations)} jobs took longer than the {_seconds(gap)} that may "
            f"lie between two ticks, the longest {_seconds(longer[-1])}: with overlap={choices.overlap} "
            f"{_WHEN_LONGER[choices.overlap]}",
        )


def _clock_changes(spec: SchedulePutData, now: datetime) -> Iterator[LintWarning]:
    begin = max(now, spec.choices.start or now)
    end = min(now + _YEARS * _YEAR, spec.choices.end or datetime.max.replace(tzinfo=UTC))
    found = sorted(
        find_dst_transitions(spec, begin, end),
        key=lambda transition: (transition.skipped, transition.change.at),
    )
    for skipped, some in groupby(found, key=lambda transition: transition.skipped):
        yield _clock_change(spec, list(some), skipped=skipped)


def _clock_change(spec: SchedulePutData, found: Sequence[DstTransition], *, skipped: bool) -> LintWarning:
    days = list(dict.fromkeys(f"{transition.wall:%F}" for transition in found))
    more = f" and {len(days) - _MAX_DATES_NAMED} more times" if len(days) > _MAX_DATES_NAMED else ""
    what = "that the clock skips" if skipped else "that comes twice"
    choice = _SKIPPED[spec.choices.dst_gap] if skipped else _REPEATED[spec.choices.dst_overlap]
    return LintWarning(
        "skipped-hour" if skipped else "repeated-hour",
        f"it ticks at a time {what} in {spec.timezone} on {', '.join(days[:_MAX_DATES_NAMED])}{more}, "
        f"first at {found[0].wall:%H:%M}: {choice}",
        tuple(_dated(spec, transition) for transition in found),
    )


def _dated(spec: SchedulePutData, transition: DstTransition) -> dict[str, str]:
    here = (moment.astimezone(zone(spec.timezone)) for moment in transition.moments)
    return {
        "wall": f"{transition.wall:%F %T}",
        "becomes": ", ".join(f"{moment:%F %T %Z}" for moment in here) or "no tick",
    }


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():g} s"
