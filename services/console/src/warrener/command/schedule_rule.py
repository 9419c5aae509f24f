"""Flags of `warrener schedule put` that say a rule by the days of a calendar, and what rule they say."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from warrener.errors import CommandError, ExitCode
from warrener.holidays import read_holidays, today
from warrener_contracts.schedule_rules import BusinessDayConvention


def _option(name: str, about: str, metavar: str | None = None) -> Any:
    return typer.Option(name, help=about, metavar=metavar, show_default=False)


BusinessDays = Annotated[
    str | None, _option("--business-days", "At these times of business days: 09:00,17:30.", "TIMES")
]
Weekdays = Annotated[
    str | None, _option("--weekdays", "Which are business days; else MON,TUE,WED,THU,FRI.", "DAYS")
]
Nth = Annotated[
    list[int] | None, _option("--nth", "Of the month's business days: 1 the first, -1 the last; repeatable.")
]
DaysOfMonth = Annotated[
    list[int] | None, _option("--day-of-month", "This day, or the business day --roll says; repeatable.")
]
RollTo = Annotated[
    BusinessDayConvention | None, _option("--roll", "From a day that is no business day; else after.")
]
RuleJson = Annotated[
    str | None, _option("--rule", "Any rule as JSON, or @FILE: any_of, all_of, except.", "JSON")
]
Holidays = Annotated[
    list[Path] | None,
    _option("--holidays", "A file of days without ticks: plain dates, TOML or ICS; repeatable.", "FILE"),
]
ExceptCron = Annotated[
    list[str] | None, _option("--except-cron", "No tick when this one ticks too; repeatable.", "EXPRESSION")
]


def business_days_rule(
    times: str | None,
    weekdays: str | None,
    nth: Sequence[int] | None,
    days: Sequence[int] | None,
    roll: BusinessDayConvention | None,
) -> dict[str, Any] | None:
    """The fields of the rule; None where it was not asked for."""
    fields = {"weekdays": _words(weekdays), "nth": nth, "days": days, "roll": roll}
    chosen = {name: value for name, value in fields.items() if value}
    if times is not None:
        return {"kind": "business_days", "at": _words(times), **chosen}
    if chosen:
        raise CommandError(
            "expected --business-days with --weekdays, --nth, --day-of-month or --roll, got none",
            do="say at what times: --business-days 09:00",
            code=ExitCode.USAGE,
        )
    return None


def whole_rule(text: str | None) -> dict[str, Any] | None:
    """The rule that is written out as JSON, or in the file behind an @; None where it was not asked for."""
    if text is None:
        return None
    try:
        found: object = json.loads(Path(text[1:]).read_text(encoding="utf-8") if text[:1] == "@" else text)
    except (OSError, ValueError) as error:
        raise _no_rule(text, f": {error}") from None
    if not isinstance(found, dict):
        raise _no_rule(text, "")
    return cast("dict[str, Any]", found)


def narrowed(rule: dict[str, Any], except_cron: Sequence[str], files: Sequence[Path]) -> dict[str, Any]:
    """Without the ticks of other expressions, and without ticks on holidays: those are no business days."""
    now = today()
    holidays = sorted({day.isoformat() for file in files for day in read_holidays(file, now)})
    without: list[dict[str, Any]] = [{"kind": "cron", "expression": text} for text in except_cron]
    if holidays and rule.get("kind") == "business_days":
        rule = {**rule, "holidays": holidays}
    elif holidays:
        without.append({"kind": "days", "dates": holidays})
    return {"kind": "except", "rule": rule, "without": without} if without else rule


def _words(text: str | None) -> list[str]:
    return [word.strip().upper() for word in (text or "").split(",") if word.strip()]


def _no_rule(text: str, why: str) -> CommandError:
    return CommandError(
        f"expected --rule as a JSON object, or @ and a file with one, got {text[:60]!r}{why}",
        do="""write {"kind": "any_of", "rules": [{"kind": "cron", "expression": "@daily"}]} or the like""",
        code=ExitCode.USAGE,
    )
