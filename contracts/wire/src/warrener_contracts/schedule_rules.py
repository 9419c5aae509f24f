"""Rules by which schedules tick, and the choices of their owners for special cases.

Pure data; `warrener_calendar` computes the ticks. Rules that tick on events are in `triggers`.
"""

from collections.abc import Mapping
from datetime import date, time, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, BaseModel, Field, model_validator

from warrener_contracts.fields import Duration, PositiveDuration, Timestamp
from warrener_contracts.schedule_words import MisfirePolicy, OverlapPolicy
from warrener_contracts.triggers import AfterRule, EventRule

MAX_CATCH_UP = 1000
MAX_DATES = 5000
MAX_PAUSE_AFTER_FAILURES = 100
MAX_RULE_PARTS = 30
MAX_RULE_DEPTH = 5


class CronRule(BaseModel, frozen=True):
    """Ticks by a cron expression on the wall clock of the schedule's zone."""

    kind: Literal["cron"] = "cron"
    expression: Annotated[
        str,
        Field(
            min_length=1,
            max_length=200,
            description="Five fields, or six with seconds first; `L`, `LW`, `15W`, `#`, names, `@daily`.",
            examples=["*/15 8-18 * * MON-FRI", "@hourly", "30 0 6 * * *"],
        ),
    ]


class IntervalRule(BaseModel, frozen=True):
    """Ticks at a fixed interval, counted from an anchor: a late tick does not move the next ones."""

    kind: Literal["interval"] = "interval"
    every: PositiveDuration
    anchor: Timestamp | None = Field(default=None, description="None: 1970-01-01T00:00Z.")
    offset: Duration | None = Field(default=None, description="Added to the anchor.")


class OnceRule(BaseModel, frozen=True):
    """Ticks once."""

    kind: Literal["once"] = "once"
    at: Timestamp | None = None
    after: Duration | None = Field(default=None, description="Counted from the time of the schedule.put.")

    @model_validator(mode="after")
    def _either(self) -> "OnceRule":
        if (self.at is None) == (self.after is None):
            raise ValueError("expected either at or after, got both or neither")
        return self


class Weekday(StrEnum):
    """A day of the week, by its name in cron."""

    MON = "MON"
    TUE = "TUE"
    WED = "WED"
    THU = "THU"
    FRI = "FRI"
    SAT = "SAT"
    SUN = "SUN"


WORKING_WEEK = (Weekday.MON, Weekday.TUE, Weekday.WED, Weekday.THU, Weekday.FRI)


class BusinessDayConvention(StrEnum):
    """Moves a tick whose day of the month is no business day."""

    SKIP = "skip"  # no tick
    BEFORE = "before"  # to the last business day before, even in the previous month
    AFTER = "after"  # to the first business day after, even in the next month
    NEAREST = "nearest"  # to the nearer of the two; to the one before if both are equally near


def _check_whole_seconds(value: time) -> time:
    if value.tzinfo is not None or value.microsecond:
        raise ValueError(
            f'expected a time of day in whole seconds and without a zone, such as "09:00", got {value}'
        )
    return value


WallTime = Annotated[time, AfterValidator(_check_whole_seconds), Field(examples=["09:00"])]
Date = Annotated[date, Field(examples=["2026-12-25"])]
Dates = Annotated[tuple[Date, ...], Field(max_length=MAX_DATES)]
Months = Annotated[tuple[Annotated[int, Field(ge=1, le=12)], ...], Field(max_length=12)]


class BusinessDaysRule(BaseModel, frozen=True):
    """Ticks at some times of business days: of all, or of those that `nth` or `days` choose in each month."""

    kind: Literal["business_days"] = "business_days"
    at: Annotated[tuple[WallTime, ...], Field(min_length=1, max_length=100)]
    weekdays: Annotated[tuple[Weekday, ...], Field(min_length=1, max_length=7)] = WORKING_WEEK
    holidays: Dates = Field(default=(), description="Days of `weekdays` that are no business days.")
    months: Months = Field(default=(), description="Months of the chosen days; none: all.")
    nth: Annotated[tuple[Annotated[int, Field(ge=-31, le=31)], ...], Field(max_length=62)] = Field(
        default=(), description="Position among the month's business days: 1 is the first, -1 the last."
    )
    days: Annotated[tuple[Annotated[int, Field(ge=1, le=31)], ...], Field(max_length=31)] = Field(
        default=(), description="Days of the month; a day that the month lacks is left out."
    )
    business_day_convention: BusinessDayConvention = Field(
        default=BusinessDayConvention.AFTER, description="Moves `days` that are no business days."
    )

    @model_validator(mode="after")
    def _choice(self) -> "BusinessDaysRule":
        if self.nth and self.days:
            raise ValueError("expected either nth or days, got both: put two rules into any_of")
        if 0 in self.nth:
            raise ValueError("expected nth from 1 (the first) or from -1 (the last), got 0")
        return self


class DaysRule(BaseModel, frozen=True):
    """A set of days and of times in them, which must meet every condition. It narrows other rules in `all_of`
    and `except`, and has no ticks of its own."""

    kind: Literal["days"] = "days"
    weekdays: Annotated[tuple[Weekday, ...], Field(max_length=7)] = Field(
        default=(), description="None: any."
    )
    months: Months = Field(default=(), description="None: any.")
    dates: Dates = Field(default=(), description="None: any.")
    since: WallTime | None = Field(default=None, description="Start; none: midnight.")
    until: WallTime | None = Field(
        default=None, description="End, exclusive; earlier than `since`: past midnight."
    )

    @model_validator(mode="after")
    def _something(self) -> "DaysRule":
        if not (self.weekdays or self.months or self.dates or self.since or self.until):
            raise ValueError("expected weekdays, months, dates, since or until, got none of them")
        if self.since is not None and self.since == self.until:
            raise ValueError(f"expected since and until to differ, got {self.since} for both")
        return self


class _CombinedRule(BaseModel, frozen=True):
    """A rule made of others, of limited size: a scheduler computes its ticks between those of others."""

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        depth, count, level = 0, 0, [cast("RulePart", self)]
        while level:
            depth, count = depth + 1, count + len(level)
            level = [part for one in level for part in child_rules(one)]
        if depth > MAX_RULE_DEPTH or count > MAX_RULE_PARTS:
            raise ValueError(
                f"expected a rule of at most {MAX_RULE_PARTS} parts in {MAX_RULE_DEPTH} levels, got "
                f"{count} in {depth}: make several schedules of it"
            )
        return self


class AnyOfRule(_CombinedRule, frozen=True):
    """Ticks when any of these does, once per time."""

    kind: Literal["any_of"] = "any_of"
    rules: Annotated[tuple["RulePart", ...], Field(min_length=1, max_length=MAX_RULE_PARTS)]


class AllOfRule(_CombinedRule, frozen=True):
    """Ticks when all of these do. A set of days admits all its times."""

    kind: Literal["all_of"] = "all_of"
    rules: Annotated[tuple["RulePart", ...], Field(min_length=1, max_length=MAX_RULE_PARTS)]


class ExceptRule(_CombinedRule, frozen=True):
    """Ticks as `rule` does, except when one of `without` ticks too or holds."""

    kind: Literal["except"] = "except"
    rule: "RulePart"
    without: Annotated[tuple["RulePart", ...], Field(min_length=1, max_length=MAX_RULE_PARTS)]


RulePart = Annotated[
    CronRule | IntervalRule | OnceRule | BusinessDaysRule | DaysRule | AnyOfRule | AllOfRule | ExceptRule,
    Field(discriminator="kind"),
]
"""A rule that may be combined with others."""

Rule = Annotated[
    CronRule
    | IntervalRule
    | OnceRule
    | BusinessDaysRule
    | AnyOfRule
    | AllOfRule
    | ExceptRule
    | EventRule
    | AfterRule,
    Field(discriminator="kind"),
]


def child_rules(rule: Rule | RulePart) -> tuple[RulePart, ...]:
    """The parts of a combined rule; none of other rules."""
    match rule:
        case AnyOfRule() | AllOfRule():
            return rule.rules
        case ExceptRule():
            return (rule.rule, *rule.without)
        case _:
            return ()


class DstGap(StrEnum):
    """Handling of a wall time that the clock skips, such as 02:30 on the last Sunday of March."""

    SKIP = "skip"  # no tick
    AFTER = "after"  # later by the length of the gap: 03:30
    BEFORE = "before"  # earlier by the length of the gap: 01:30


class DstOverlap(StrEnum):
    """Choice between the two moments of a wall time that the clock shows twice."""

    FIRST = "first"
    LAST = "last"
    BOTH = "both"


class ScheduleChoices(BaseModel, frozen=True):
    """Options of a schedule."""

    dst_gap: DstGap = DstGap.AFTER
    dst_overlap: DstOverlap = DstOverlap.FIRST
    misfire: MisfirePolicy = MisfirePolicy.ONCE
    max_catch_up: Annotated[int, Field(ge=1, le=MAX_CATCH_UP)] = 10
    catch_up_window: PositiveDuration | None = Field(default=None, description="Required by misfire=window.")
    grace: PositiveDuration = Field(
        default=timedelta(seconds=10),
        description="Grace period; a tick handled later, or after the next one is due, counts as missed.",
    )
    overlap: OverlapPolicy = OverlapPolicy.ALLOW
    jitter: Duration | None = Field(
        default=None, description="Maximum delay added to each tick, derived from its name and time."
    )
    start: Timestamp | None = Field(default=None, description="Start; no tick before it.")
    end: Timestamp | None = Field(default=None, description="End; no tick after it.")
    max_runs: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Number of jobs after which the schedule ends."
    )
    pause_after_failures: Annotated[int, Field(ge=1, le=MAX_PAUSE_AFTER_FAILURES)] | None = Field(
        default=None, description="Number of failed jobs in a row after which it is paused."
    )
    expect_success_within: PositiveDuration | None = Field(
        default=None, description="Time without a successful job after which an alarm is raised."
    )
    overdue_after: PositiveDuration | None = Field(
        default=None,
        description="Time after which a due tick that is not handled raises an alarm. "
        "None: 20 s after the grace period.",
    )

    @model_validator(mode="after")
    def _window(self) -> "ScheduleChoices":
        if self.misfire is MisfirePolicy.WINDOW and self.catch_up_window is None:
            raise ValueError("expected a catch_up_window with misfire=window, got none")
        return self


_KINDS: Mapping[str, tuple[str, str]] = {
    "cron": ("cron", "expression"),
    "every": ("interval", "every"),
    "at": ("once", "at"),
    "after": ("once", "after"),
}
_OF_INTERVALS = ("anchor", "offset")
SHORT_RULE_FIELDS = frozenset((*_KINDS, *_OF_INTERVALS))
"""The options of the short forms, such as `cron = "…"` for a rule of the kind cron."""


def expand_short_rule(options: Mapping[str, Any]) -> Any:
    """The rule in these options: under `rule`, or in one of the short forms.

    Raises ValueError unless exactly one is given.
    """
    given = [word for word in ("rule", *_KINDS) if options.get(word) is not None]
    if len(given) != 1:
        raise ValueError(
            f"expected one of rule, {', '.join(_KINDS)}, got {' and '.join(given) or 'none of them'}"
        )
    of_intervals = {word: options[word] for word in _OF_INTERVALS if options.get(word) is not None}
    if of_intervals and given != ["every"]:
        raise ValueError(f"expected {' and '.join(of_intervals)} beside every alone, got {given[0]}")
    if given == ["rule"]:
        return options["rule"]
    kind, field = _KINDS[given[0]]
    return {"kind": kind, field: options[given[0]], **of_intervals}
