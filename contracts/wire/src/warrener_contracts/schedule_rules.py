"""When a schedule ticks, and what its owner chooses for the cases that are not plain. Pure data; the
scheduler's calendar says which moments follow from it."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from warrener_contracts.day_rules import BusinessDaysRule, DaysRule
from warrener_contracts.durations import Duration, PositiveDuration
from warrener_contracts.timestamps import Timestamp
from warrener_contracts.triggers import AfterRule, EventRule

MAX_CATCH_UP = 1000
MAX_PAUSE_AFTER_FAILURES = 100
MAX_RULE_PARTS = 30
MAX_RULE_DEPTH = 5


class CronRule(BaseModel, frozen=True):
    """By the wall clock of the schedule's zone."""

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
    """Every so often, counted from an anchor: a tick that comes late moves none of those behind it."""

    kind: Literal["interval"] = "interval"
    every: PositiveDuration
    anchor: Timestamp | None = Field(default=None, description="None: 1970-01-01T00:00Z.")
    offset: Duration | None = Field(default=None, description="Added to the anchor.")


class OnceRule(BaseModel, frozen=True):
    """One single tick."""

    kind: Literal["once"] = "once"
    at: Timestamp | None = None
    after: Duration | None = Field(default=None, description="Counted from the time of the schedule.put.")

    @model_validator(mode="after")
    def _either(self) -> "OnceRule":
        if (self.at is None) == (self.after is None):
            raise ValueError("expected either at or after, got both or neither")
        return self


class AnyOfRule(BaseModel, frozen=True):
    """Ticks whenever one of these does; at one time once."""

    kind: Literal["any_of"] = "any_of"
    rules: Annotated[tuple["RulePart", ...], Field(min_length=1, max_length=MAX_RULE_PARTS)]

    @model_validator(mode="after")
    def _size(self) -> "AnyOfRule":
        _check_size(self)
        return self


class AllOfRule(BaseModel, frozen=True):
    """Ticks when all of these do. Sets of days let all times through that they hold."""

    kind: Literal["all_of"] = "all_of"
    rules: Annotated[tuple["RulePart", ...], Field(min_length=1, max_length=MAX_RULE_PARTS)]

    @model_validator(mode="after")
    def _size(self) -> "AllOfRule":
        _check_size(self)
        return self


class ExceptRule(BaseModel, frozen=True):
    """Ticks as `rule` does, but when one of `without` ticks too, or holds."""

    kind: Literal["except"] = "except"
    rule: "RulePart"
    without: Annotated[tuple["RulePart", ...], Field(min_length=1, max_length=MAX_RULE_PARTS)]

    @model_validator(mode="after")
    def _size(self) -> "ExceptRule":
        _check_size(self)
        return self


RulePart = Annotated[
    CronRule | IntervalRule | OnceRule | BusinessDaysRule | DaysRule | AnyOfRule | AllOfRule | ExceptRule,
    Field(discriminator="kind"),
]
"""What rules are combined of."""

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
    """Those that a rule is combined of; none if it is not."""
    match rule:
        case AnyOfRule() | AllOfRule():
            return rule.rules
        case ExceptRule():
            return (rule.rule, *rule.without)
        case _:
            return ()


def _check_size(rule: RulePart) -> None:
    """A scheduler computes ticks between those of others: what one rule may cost has a limit."""
    depth, count, level = 0, 0, [rule]
    while level:
        depth, count = depth + 1, count + len(level)
        level = [part for one in level for part in child_rules(one)]
    if depth > MAX_RULE_DEPTH or count > MAX_RULE_PARTS:
        raise ValueError(
            f"expected a rule of at most {MAX_RULE_PARTS} parts in {MAX_RULE_DEPTH} levels, got "
            f"{count} in {depth}: "
            "make several schedules of it"
        )


class DstGap(StrEnum):
    """What becomes of a wall time that the clock jumps over, such as 02:30 on the last Sunday of March."""

    SKIP = "skip"  # no tick
    AFTER = "after"  # as much later as the clock jumps: 03:30
    BEFORE = "before"  # as much earlier: 01:30


class DstOverlap(StrEnum):
    """Which of the two moments counts where the clock shows a wall time twice."""

    FIRST = "first"
    LAST = "last"
    BOTH = "both"


class MisfirePolicy(StrEnum):
    """What becomes of ticks that no scheduler has handled in time."""

    SKIP = "skip"  # none of them asks for a job
    ONCE = "once"  # the last one does, in place of all
    ALL = "all"  # the newest `catch_up_most` do
    WINDOW = "window"  # those no older than `catch_up_window` do


class OverlapPolicy(StrEnum):
    """What becomes of a tick while the job of an earlier one is not over."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue_one"  # one waits for the end of it; what comes while one waits is skipped
    QUEUE_ALL = "queue_all"
    CANCEL = "cancel"  # the running one is cancelled, and does not keep this one from starting


class ScheduleChoices(BaseModel, frozen=True):
    """What the owner of a schedule chooses."""

    skipped_hour: DstGap = DstGap.AFTER
    repeated_hour: DstOverlap = DstOverlap.FIRST
    misfire: MisfirePolicy = MisfirePolicy.ONCE
    catch_up_most: Annotated[int, Field(ge=1, le=MAX_CATCH_UP)] = 10
    catch_up_window: PositiveDuration | None = Field(default=None, description="Needed for misfire=window.")
    grace: PositiveDuration = Field(
        default=timedelta(seconds=10),
        description="A tick that is handled later than that, or after the next one is due, is missed.",
    )
    overlap: OverlapPolicy = OverlapPolicy.ALLOW
    jitter: Duration | None = Field(
        default=None, description="Each tick is late by up to this, derived from its name and time."
    )
    start: Timestamp | None = Field(default=None, description="No tick before.")
    end: Timestamp | None = Field(default=None, description="No tick after.")
    max_runs: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="After so many jobs the schedule is over."
    )
    pause_after_failures: Annotated[int, Field(ge=1, le=MAX_PAUSE_AFTER_FAILURES)] | None = Field(
        default=None, description="When so many of its jobs have failed in a row, it is paused."
    )
    expect_success_within: PositiveDuration | None = Field(
        default=None, description="No job of it has succeeded for so long: an alarm."
    )
    overdue_after: PositiveDuration | None = Field(
        default=None,
        description="A tick that nobody has handled so long after it was due is an alarm. "
        "None: 20 s after the grace is over.",
    )

    @model_validator(mode="after")
    def _window(self) -> "ScheduleChoices":
        if self.misfire is MisfirePolicy.WINDOW and self.catch_up_window is None:
            raise ValueError("expected a catch_up_window with misfire=window, got none")
        return self
