"""The ticks of a schedule: their nominal times, when each is due, and a preview for people. Pure."""

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice, takewhile
from uuid import NAMESPACE_OID, uuid5

from warrener_calendar import cron, rules
from warrener_calendar.dst import moments
from warrener_calendar.template_variables import check_arguments
from warrener_calendar.wall_rules import Steps
from warrener_calendar.zones import ClockChange, changes_of, zone
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import CronRule
from warrener_contracts.triggers import AfterRule, EventRule, TriggerRule

_PAST = datetime.min.replace(tzinfo=UTC)
_WHOLE = 2**128
_FIRST_LOOK_BACK = timedelta(minutes=1)
_MAX_STEPS = 200_000  # of a question for people: about a second for the slowest rules


class NeverTicks(ValueError):
    """The rule, or its start and end, leave no tick."""


def check(spec: SchedulePutData, put_at: datetime) -> None:
    """Raise ValueError for an unknown zone, a bad rule, bad arguments, and a schedule that never ticks or
    never pauses."""
    zone(spec.timezone)
    check_arguments(spec)
    if isinstance(spec.rule, TriggerRule):
        if spec.choices.jitter:
            raise ValueError("expected no jitter where events make the ticks: they come when they come")
        return
    rules.check(spec.rule)
    # A rule may have past ticks alone; one that ticks from now on is found without a look at the past.
    if all(next(nominal_times(spec, put_at, begin), None) is None for begin in (put_at, _PAST)):
        raise NeverTicks(
            "expected a rule that ticks at least once between start and end, got one that never does"
        )


def nominal_times(
    spec: SchedulePutData, put_at: datetime, after: datetime, steps: Steps | None = None
) -> Iterator[datetime]:
    """Yield the nominal times later than `after`, in order, each once. Raises TooManySteps beyond `steps`."""
    choices = spec.choices
    if choices.start is not None:
        after = max(after, choices.start - timedelta.resolution)
    end = rules.END if choices.end is None else choices.end
    return takewhile(lambda moment: moment <= end, _of_rule(spec, put_at, after, steps))


def previous_nominal(
    spec: SchedulePutData, put_at: datetime, nominal_at: datetime, *, since: datetime | None = None
) -> datetime | None:
    """Return the nominal time before this one; None if there was none since `since`, or since the put."""
    span, first = _FIRST_LOOK_BACK, since or put_at
    while True:
        whole = nominal_at - first < span
        after = first - timedelta.resolution if whole else nominal_at - span
        before = takewhile(lambda moment: moment < nominal_at, nominal_times(spec, put_at, after))
        if found := deque(before, maxlen=1):
            return found[0]
        if whole:
            return None
        span *= 8


def due_at(spec: SchedulePutData, nominal_at: datetime) -> datetime:
    """Return when the tick of this nominal time is due: later by its share of the jitter.

    The share depends on the name and the time alone, so that all schedulers agree.
    """
    jitter = spec.choices.jitter
    if not jitter:
        return nominal_at
    return nominal_at + jitter * (uuid5(NAMESPACE_OID, f"{spec.name}\n{nominal_at.isoformat()}").int / _WHOLE)


def preview(spec: SchedulePutData, put_at: datetime, after: datetime, count: int) -> list[dict[str, str]]:
    """Return `count` ticks later than `after`, each with its wall time.

    For a rule by the wall clock each clock change in between has an entry with the choice for the times that
    the change skips or repeats. Raises TooManySteps for a rule whose ticks take too long to find.
    """
    found: list[dict[str, str]] = []
    last = after
    for moment in islice(nominal_times(spec, put_at, after, Steps(_MAX_STEPS)), count):
        found += [_clock_change_entry(change, spec) for change in _changes(spec, last, moment)]
        found.append({"at": _utc(moment), "wall": _wall(moment, spec)})
        last = moment
    return found


def times_between(
    spec: SchedulePutData, put_at: datetime, begin: datetime, end: datetime, limit: int
) -> list[datetime]:
    """Return the nominal times from `begin` to `end`, both included, at most `limit`. Raises TooManySteps."""
    times = nominal_times(spec, put_at, begin - timedelta.resolution, Steps(_MAX_STEPS))
    return list(islice(takewhile(lambda moment: moment <= end, times), limit))


def _of_rule(
    spec: SchedulePutData, put_at: datetime, after: datetime, steps: Steps | None
) -> Iterator[datetime]:
    choices = spec.choices
    match spec.rule:
        case CronRule(expression=expression):
            wall_times = partial(cron.wall_times, expression)
            since = max(after, rules.EPOCH)
            return moments(spec.timezone, wall_times, since, choices.dst_gap, choices.dst_overlap)
        case EventRule() | AfterRule():
            return iter(())
        case rule:
            context = rules.RuleContext(spec.timezone, choices.dst_gap, choices.dst_overlap, put_at, steps)
            return rules.combined_ticks(rule, context, after)


def _changes(spec: SchedulePutData, begin: datetime, end: datetime) -> Iterator[ClockChange]:
    """Yield the clock changes later than `begin` and up to `end`."""
    if not rules.uses_wall_clock(spec.rule):
        return
    for year in range(begin.year, end.year + 1):
        yield from (change for change in changes_of(spec.timezone, year) if begin < change.at <= end)


def _clock_change_entry(change: ClockChange, spec: SchedulePutData) -> dict[str, str]:
    before, after = change.at + change.before, change.at + change.after
    jump = f"{before:%H:%M} → {after:%H:%M}"
    choices = spec.choices
    rule = f"skipped times: {choices.dst_gap}" if after > before else f"repeated times: {choices.dst_overlap}"
    return {"at": _utc(change.at), "clock_change": f"the clock changes {jump} ({rule})"}


def _wall(moment: datetime, spec: SchedulePutData) -> str:
    return f"{moment.astimezone(zone(spec.timezone)):%a %Y-%m-%d %H:%M:%S %Z}"


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
