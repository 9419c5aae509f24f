"""Rules by the days of a calendar: business days with their holidays, and sets of days that narrow other
rules. Pure data; the scheduler's calendar says which moments follow from it."""

from datetime import date, time
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, model_validator

MAX_DATES = 5000


class Weekday(StrEnum):
    """As cron calls them."""

    MON = "MON"
    TUE = "TUE"
    WED = "WED"
    THU = "THU"
    FRI = "FRI"
    SAT = "SAT"
    SUN = "SUN"


WORKING_WEEK = (Weekday.MON, Weekday.TUE, Weekday.WED, Weekday.THU, Weekday.FRI)


class BusinessDayConvention(StrEnum):
    """Where a tick goes whose day of the month is no business day."""

    SKIP = "skip"  # nowhere
    BEFORE = "before"  # to the last business day before it, be it in the month before
    AFTER = "after"  # to the first one after it, be it in the month after
    NEAREST = "nearest"  # to the nearer of the two; the one before where both are as near


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
    """At some times of business days: of every one, or of those that `nth` or `days` choose in each month."""

    kind: Literal["business_days"] = "business_days"
    at: Annotated[tuple[WallTime, ...], Field(min_length=1, max_length=100)]
    weekdays: Annotated[tuple[Weekday, ...], Field(min_length=1, max_length=7)] = WORKING_WEEK
    holidays: Dates = Field(default=(), description="Days of `weekdays` that are no business days.")
    months: Months = Field(default=(), description="Of these alone, by the day that is chosen; none: of all.")
    nth: Annotated[tuple[Annotated[int, Field(ge=-31, le=31)], ...], Field(max_length=62)] = Field(
        default=(), description="Of the month's business days: 1 is the first, -1 the last."
    )
    days: Annotated[tuple[Annotated[int, Field(ge=1, le=31)], ...], Field(max_length=31)] = Field(
        default=(), description="Days of the month; one that the month lacks is left out."
    )
    roll: BusinessDayConvention = Field(
        default=BusinessDayConvention.AFTER, description="For `days` that are no business days."
    )

    @model_validator(mode="after")
    def _choice(self) -> "BusinessDaysRule":
        if self.nth and self.days:
            raise ValueError("expected either nth or days, got both: put two rules into any_of")
        if 0 in self.nth:
            raise ValueError("expected nth from 1 (the first) or from -1 (the last), got 0")
        return self


class DaysRule(BaseModel, frozen=True):
    """A set of days, and of times in them: all that is said holds. It narrows other rules within `all_of` and
    `except`, and ticks at no time of its own."""

    kind: Literal["days"] = "days"
    weekdays: Annotated[tuple[Weekday, ...], Field(max_length=7)] = Field(
        default=(), description="None: any."
    )
    months: Months = Field(default=(), description="None: any.")
    dates: Dates = Field(default=(), description="None: any.")
    since: WallTime | None = Field(default=None, description="None: from midnight on.")
    until: WallTime | None = Field(
        default=None, description="The first time that is out of it; earlier than `since`: past midnight."
    )

    @model_validator(mode="after")
    def _something(self) -> "DaysRule":
        if not (self.weekdays or self.months or self.dates or self.since or self.until):
            raise ValueError("expected weekdays, months, dates, since or until, got none of them")
        if self.since is not None and self.since == self.until:
            raise ValueError(f"expected since and until to differ, got {self.since} for both")
        return self
