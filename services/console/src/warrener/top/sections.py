"""The sections of the picture: their columns, and the order of their rows. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from rich.text import Text

from warrener.render.screen import one_line
from warrener.render.times import ago, span
from warrener.top.view import SystemView


def _as_text(value: Any, _: datetime) -> str:
    return str(value)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a section. `value` is sorted by and, with `text`, shown."""

    header: str
    value: Callable[[Any], Any]
    text: Callable[[Any, datetime], str | Text] = _as_text
    right: bool = False
    largest_first: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A list of lines, such as the queues."""

    name: str
    columns: tuple[Column, ...]
    lines: Callable[[SystemView], Sequence[Any]]
    is_alarm: bool = False  # True: a line in it needs somebody
    is_limited: bool = False  # True: there may be more lines than were read


@dataclass(frozen=True, slots=True)
class Order:
    """The order of the rows of a section: by this column, None for the order of the view."""

    column: int | None = None
    reverse: bool = False


def sort_lines(section: Section, lines: Sequence[Any], order: Order) -> list[Any]:
    """Sort the lines; values that are absent come last."""
    if order.column is None:
        return list(reversed(lines)) if order.reverse else list(lines)
    column = section.columns[order.column]
    there = [line for line in lines if column.value(line) is not None]
    absent = [line for line in lines if column.value(line) is None]
    return sorted(there, key=column.value, reverse=column.largest_first != order.reverse) + absent


def next_order(section: Section, order: Order) -> Order:
    """The order by the next column, and behind the last one that of the view."""
    follows = 0 if order.column is None else order.column + 1
    return Order(follows if follows < len(section.columns) else None)


# -- how values are shown ----------------------------------------------------------------------------------


def number(value: float | None, _: datetime | None = None) -> str:
    """A count: `12,345`; `-` if it is unknown."""
    return "-" if value is None else f"{value:,.0f}"


def rate(value: float | None, _: datetime | None = None) -> str:
    """Jobs a second: `0`, `0.25`, `12.3`, `1,234`; `-` before a second reading."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f}"


def _failures(value: float | None, _: datetime) -> Text:
    return Text(rate(value), style="error" if value else "")


def _dead(value: int, _: datetime) -> Text:
    return Text(number(value), style="warning" if value else "")


def _seconds(value: float | None, _: datetime) -> str:
    return "-" if value is None else span(timedelta(seconds=value), units=1)


def _lag(value: float, _: datetime) -> Text:
    late = value >= 1
    return Text(span(timedelta(seconds=value), units=1) if late else "-", style="warning" if late else "")


def _moment(value: datetime | None, now: datetime) -> str:
    return "-" if value is None else ago(value, now).replace(" ago", "")


def _consumers(value: int | None, _: datetime) -> Text:
    return Text(number(value), style="error" if value == 0 else "")


_STATES = {"alive": "good", "draining": "live", "troubled": "error", "silent": "error"}


def _agent_state(value: str, _: datetime) -> Text:
    return Text(value, style=_STATES.get(value, ""))


def _breaker_state(value: str, _: datetime) -> Text:
    return Text(value, style="error" if value == "open" else "warning")


def _prose(value: str | None, _: datetime) -> Text:
    return Text(one_line(value or ""), style="soft")


def _count(header: str, name: str) -> Column:
    return Column(header, _getter(name), number, right=True, largest_first=True)


def _per_second(header: str, name: str) -> Column:
    return Column(header, _getter(name), rate, right=True, largest_first=True)


def _getter(name: str) -> Callable[[Any], Any]:
    return lambda line: getattr(line, name)


def _word(header: str, name: str) -> Column:
    return Column(header, _getter(name))


def _free_text(header: str, name: str) -> Column:
    return Column(header, _getter(name), _prose)


def _when(header: str, name: str) -> Column:
    return Column(header, _getter(name), _moment, right=True, largest_first=True)


SECTIONS = (
    Section(
        "queues",
        (
            _word("queue", "queue"),
            _count("waiting", "waiting"),
            _count("queued", "queued"),
            _count("running", "running"),
            _count("retrying", "retrying"),
            _count("broker", "messages"),
            replace(_count("cons", "consumers"), text=_consumers),
            replace(_count("oldest", "oldest_seconds"), text=_seconds),
            _per_second("in/s", "in_rate"),
            _per_second("out/s", "out_rate"),
        ),
        lambda view: view.queues,
    ),
    Section(
        "types",
        (
            _word("type", "job_type"),
            _count("waiting", "waiting"),
            _count("running", "running"),
            _count("retrying", "retrying"),
            _per_second("done/s", "succeeded_rate"),
            replace(_per_second("failed/s", "failed_rate"), text=_failures),
            replace(_count("dead", "dead"), text=_dead),
        ),
        lambda view: view.types,
    ),
    Section(
        "agents",
        (
            _word("agent", "agent"),
            Column("state", _getter("state"), _agent_state),
            _count("used", "slots_used"),
            _count("free", "slots_free"),
            _count("types", "job_types"),
            _when("seen", "last_seen_at"),
            Column("queues", _getter("queues"), lambda value, _: ", ".join(value)),
            _free_text("trouble", "trouble"),
        ),
        lambda view: view.agents,
    ),
    Section(
        "breakers",
        (
            _word("breaker", "breaker"),
            Column("state", _getter("state"), _breaker_state),
            _when("since", "since"),
            _when("until", "until"),
            _free_text("why", "reason"),
        ),
        lambda view: view.breakers,
        is_alarm=True,
    ),
    Section(
        "incidents",
        (
            _word("incident", "incident"),
            _word("what", "kind"),
            _word("about", "about"),
            _count("times", "times"),
            _when("last", "last_seen_at"),
            Column("acknowledged", lambda line: line.acknowledged_by or "", _prose),
        ),
        lambda view: view.incidents,
        is_alarm=True,
        is_limited=True,
    ),
    Section(
        "schedules",
        (
            _word("schedule", "schedule"),
            replace(_when("next", "next_at"), largest_first=False),
            Column("lag", _getter("lag_seconds"), _lag, right=True, largest_first=True),
            _count("waiting", "waiting_ticks"),
            _word("type", "job_type"),
        ),
        lambda view: view.schedules,
        is_limited=True,
    ),
    Section(
        "dead",
        (
            _word("job", "job"),
            _word("type", "job_type"),
            _when("died", "died_at"),
            _word("cause", "cause"),
            _free_text("error", "error"),
        ),
        lambda view: view.dead_letters,
        is_alarm=True,
        is_limited=True,
    ),
    Section(
        "parked",
        (
            _word("reason", "reason"),
            _word("queue", "queue"),
            _when("parked", "parked_at"),
            _free_text("detail", "detail"),
        ),
        lambda view: view.parked,
        is_alarm=True,
        is_limited=True,
    ),
)
