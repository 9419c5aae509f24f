"""The sections of the picture and their columns. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rich.text import Text

from warrener.command.verbs import cell, value_of
from warrener.operations.agents import AGENTS
from warrener.operations.breakers import BREAKERS
from warrener.operations.dead_letters import DEAD_LETTERS
from warrener.operations.incidents import INCIDENTS
from warrener.operations.noun import Noun
from warrener.operations.parked import PARKED
from warrener.operations.schedules import SCHEDULES
from warrener.render.tones import Tone
from warrener.top.view import QueueLine, SystemView, TypeLine
from warrener_contracts.state_machine import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A list of lines, such as the queues. `columns` are those of a noun: fields of a line, or functions of
    it."""

    name: str
    columns: Mapping[str, str | Callable[[Any], Any]]
    lines: Callable[[SystemView], Sequence[Any]]
    tones: Mapping[str, Tone] = field(default_factory=dict[str, Tone])  # of `state`
    is_alarm: bool = False  # True: a line in it needs somebody
    is_limited: bool = False  # True: there may be more lines than were read

    def cells(self, line: object, now: datetime) -> list[Text]:
        """The cells of a line."""
        return [cell(self.tones, name, value_of(line, name), now) for name in self.columns.values()]

    def numbers(self, lines: Sequence[object]) -> set[str]:
        """The columns of numbers."""
        values = {header: value_of(lines[0], name) for header, name in self.columns.items()} if lines else {}
        right = {header for header, value in values.items() if isinstance(value, Text) and value.justify}
        return right | {header for header, value in values.items() if isinstance(value, int)}


def number(value: float | None) -> str:
    """A count: `12,345`; `-` if it is unknown."""
    return "-" if value is None else f"{value:,.0f}"


def rate(value: float | None) -> str:
    """Jobs a second: `0`, `0.25`, `12.3`, `1,234`; `-` before a second reading."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f}"


def _right(text: str, style: str = "") -> Text:
    return Text(text, style=style, justify="right")


def _jobs(*states: JobState, style: str = "") -> Callable[[QueueLine | TypeLine], Text]:
    def count(line: QueueLine | TypeLine) -> Text:
        jobs = sum(line.jobs.get(state, 0) for state in states)
        return _right(number(jobs), style if jobs else "")

    return count


def _consumers(line: QueueLine) -> Text:
    return _right(number(line.consumers), "error" if line.consumers == 0 else "")


def _failures(line: TypeLine) -> Text:
    return _right(rate(line.failed_rate), "error" if line.failed_rate else "")


def _section_of(
    noun: Noun, name: str, lines: Callable[[SystemView], Sequence[Any]], *, is_alarm: bool, is_limited: bool
) -> Section:
    return Section(
        name=name,
        columns={header: name for header, name in noun.columns.items() if name != "parked_id"},  # too wide
        lines=lines,
        tones=noun.tones,
        is_alarm=is_alarm,
        is_limited=is_limited,
    )


SECTIONS = (
    Section(
        name="queues",
        columns={
            "queue": "name",
            "waiting": _jobs(JobState.WAITING),
            "queued": _jobs(JobState.QUEUED),
            "running": _jobs(JobState.RUNNING),
            "retrying": _jobs(JobState.RETRYING),
            "broker": lambda line: _right(number(line.waiting)),
            "cons": _consumers,
            "oldest": "oldest",
            "in/s": lambda line: _right(rate(line.in_rate)),
            "out/s": lambda line: _right(rate(line.out_rate)),
        },
        lines=lambda view: view.queues,
    ),
    Section(
        name="types",
        columns={
            "type": "name",
            "waiting": _jobs(JobState.WAITING, JobState.QUEUED),
            "running": _jobs(JobState.RUNNING),
            "retrying": _jobs(JobState.RETRYING),
            "done/s": lambda line: _right(rate(line.succeeded_rate)),
            "failed/s": _failures,
            "dead": _jobs(JobState.DEAD, style="warning"),
        },
        lines=lambda view: view.job_types,
    ),
    _section_of(AGENTS, "agents", lambda view: view.agents, is_alarm=False, is_limited=False),
    _section_of(BREAKERS, "breakers", lambda view: view.breakers, is_alarm=True, is_limited=False),
    _section_of(INCIDENTS, "incidents", lambda view: view.incidents, is_alarm=True, is_limited=True),
    _section_of(SCHEDULES, "schedules", lambda view: view.schedules, is_alarm=False, is_limited=True),
    _section_of(DEAD_LETTERS, "dead", lambda view: view.dead_letters, is_alarm=True, is_limited=True),
    _section_of(PARKED, "parked", lambda view: view.parked, is_alarm=True, is_limited=True),
)
