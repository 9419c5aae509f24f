"""The picture of a view: a frame that fits the terminal, or all of it as plain text. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as field_of
from typing import Any

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from warrener.command.verbs import cell, value_of
from warrener.operations.agents import AGENTS
from warrener.operations.breakers import BREAKERS
from warrener.operations.dead_letters import DEAD_LETTERS
from warrener.operations.incidents import INCIDENTS
from warrener.operations.noun import Noun
from warrener.operations.parked import PARKED
from warrener.operations.schedules import SCHEDULES
from warrener.render.screen import one_line
from warrener.render.times import clock
from warrener.render.tones import Tone
from warrener.top.view import MAX_ROWS, QueueLine, SystemView, TypeLine
from warrener_contracts.state_machine import JobState

# -- sections ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A list of lines, such as the queues. `columns` are those of a noun: fields of a line, or functions."""

    name: str
    columns: Mapping[str, str | Callable[[Any], Any]]
    field: str  # of the view, which has its lines
    tones: Mapping[str, Tone] = field_of(default_factory=dict[str, Tone])  # of `state`
    is_alarm: bool = False  # True: a line in it needs somebody
    is_limited: bool = False  # True: there may be more lines than were read

    def lines(self, view: SystemView) -> Sequence[Any]:
        found: Sequence[Any] = getattr(view, self.field)
        return found


def number(value: float | None) -> str:
    """A count: `12,345`; `-` if it is unknown."""
    return "-" if value is None else f"{value:,.0f}"


def rate(value: float | None) -> str:
    """Jobs a second: `0`, `0.25`, `12.3`, `1,234`; `-` before a second reading."""
    if not value:
        return "-" if value is None else "0"
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f}"


def _right(text: str, style: str = "") -> Text:
    return Text(text, style=style, justify="right")


def _jobs(*states: JobState, style: str = "") -> Callable[[QueueLine | TypeLine], Text]:
    def count(line: QueueLine | TypeLine) -> Text:
        jobs = sum(line.jobs.get(state, 0) for state in states)
        return _right(number(jobs), style if jobs else "")

    return count


def _section_of(noun: Noun, name: str, field: str = "", **flags: bool) -> Section:
    columns = {header: column for header, column in noun.columns.items() if column != "parked_id"}  # too wide
    return Section(name=name, columns=columns, field=field or name, tones=noun.tones, **flags)


SECTIONS = (
    Section(
        name="queues",
        columns={
            "queue": "name",
            "waiting": _jobs(JobState.WAITING),
            "queued": _jobs(JobState.QUEUED),
            "running": _jobs(JobState.RUNNING),
            "retrying": _jobs(JobState.RETRYING),
            "suspended": _jobs(JobState.SUSPENDED),
            "broker": lambda line: _right(number(line.waiting)),
            "cons": lambda line: _right(number(line.consumers), "error" if line.consumers == 0 else ""),
            "oldest": "oldest",
            "in/s": lambda line: _right(rate(line.in_rate)),
            "out/s": lambda line: _right(rate(line.out_rate)),
        },
        field="queues",
    ),
    Section(
        name="types",
        columns={
            "type": "name",
            "waiting": _jobs(JobState.WAITING, JobState.QUEUED),
            "running": _jobs(JobState.RUNNING),
            "retrying": _jobs(JobState.RETRYING),
            "suspended": _jobs(JobState.SUSPENDED),
            "done/s": lambda line: _right(rate(line.succeeded_rate)),
            "failed/s": lambda line: _right(rate(line.failed_rate), "error" if line.failed_rate else ""),
            "dead": _jobs(JobState.DEAD, style="warning"),
        },
        field="job_types",
    ),
    _section_of(AGENTS, "agents"),
    _section_of(BREAKERS, "breakers", is_alarm=True),
    _section_of(INCIDENTS, "incidents", is_alarm=True, is_limited=True),
    _section_of(SCHEDULES, "schedules", is_limited=True),
    _section_of(DEAD_LETTERS, "dead", "dead_letters", is_alarm=True, is_limited=True),
    _section_of(PARKED, "parked", is_alarm=True, is_limited=True),
)
_KEYS = "q quit  ←→ section  p pause"
_DIGITS = [str(number) for number in range(1, len(SECTIONS) + 1)]
_STEPS = {"left": -1, "right": 1, "tab": 1}
_MIN_HEIGHT = 3  # of a section: its title, the headers and a row
_GAP = 1  # columns between the columns


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of the person at the keyboard."""

    section: int = 0
    paused: bool = False

    def press(self, key: str) -> "Choices":
        """The choices after a key; unknown keys change nothing."""
        if key in _DIGITS:
            return replace(self, section=_DIGITS.index(key))
        if key in _STEPS:
            return replace(self, section=(self.section + _STEPS[key]) % len(SECTIONS))
        return replace(self, paused=not self.paused) if key == "p" else self


def frame(view: SystemView, choices: Choices, width: int, height: int) -> RenderableType:
    """The picture for a terminal of this size: the chosen section, and others where there is room."""
    head = _head(view, choices, width)
    rows = height - len(head) - 1
    parts: list[RenderableType] = [*head]
    shown = [choices.section, *(i for i in range(len(SECTIONS)) if i != choices.section)]
    heights = _share(view, shown, rows)
    parts += [_section(view, index, heights[index]) for index in shown if heights.get(index, 0)]
    used = sum(heights.values())
    parts.extend(Text("") for _ in range(rows - used))
    parts.append(_line(Text(_KEYS, style="soft"), width))
    return Group(*parts)


def plain_picture(view: SystemView, width: int) -> RenderableType:
    parts: list[RenderableType] = [*_head(view, None, width)]
    for index, section in enumerate(SECTIONS):
        lines = section.lines(view)
        if lines:
            parts += [Text(""), _section(view, index, len(lines) + 2)]
    return Group(*parts)


def _share(view: SystemView, shown: Sequence[int], rows: int) -> dict[int, int]:
    """The heights of the sections: first that of the chosen one, then of others while there is room."""
    heights: dict[int, int] = {}
    for index in shown:
        lines = len(SECTIONS[index].lines(view))
        is_chosen = index == shown[0]
        if not is_chosen and (not lines or rows < _MIN_HEIGHT):
            continue
        heights[index] = max(0, min(max(1, lines) + 2, rows))
        rows -= heights[index]
    return heights


# -- the lines above the sections --------------------------------------------------------------------------


def _head(view: SystemView, choices: Choices | None, width: int) -> list[Text]:
    lines = [_title(view, paused=choices is not None and choices.paused), _services(view), _totals(view)]
    for name, trouble in (("store", view.store_trouble), ("broker", view.broker_trouble)):
        if trouble is not None:
            lines.append(Text(f"✗ {name}: {one_line(trouble)}", style="error"))
    lines.append(_tabs(view, None if choices is None else choices.section))
    return [_line(line, width) for line in lines]


def _line(text: Text, width: int) -> Text:
    """One line of the terminal: cut where it is too long."""
    text.truncate(width, overflow="ellipsis")
    text.no_wrap = True
    return text


def _title(view: SystemView, *, paused: bool) -> Text:
    made = Text.assemble(("warrener top", "bold"), f"  {clock(view.at)}")
    if view.broker is not None:
        made.append(f"  {view.broker}", style="soft")
    if paused:
        made.append("  paused", style="warning")
    return made


def _services(view: SystemView) -> Text:
    services = view.services
    made = Text()
    for count, noun in ((services.schedulers, "scheduler"), (services.supervisors, "supervisor")):
        word = noun if count == 1 else f"{noun}s"
        made.append(f"{'?' if count is None else count} {word}  ", style="error" if count == 0 else "")
    alive = services.agents_alive
    noun = "agent" if alive == 1 else "agents"
    made.append(f"{'?' if alive is None else alive} {noun}", style="warning" if alive == 0 else "")
    if services.agents_silent:
        made.append(f" ({services.agents_silent} silent)", style="error")
    made.append(f"  slots {number(services.slots_used)} used {number(services.slots_free)} free")
    for duty, holder in services.duties.items():
        made.append(f"  {duty}: {holder}", style="soft")
    return made


def _totals(view: SystemView) -> Text:
    totals = view.totals
    made = Text.assemble(
        f"in/s {rate(totals.requested_rate)}  out/s {rate(totals.finished_rate)}  failed/s ",
        (rate(totals.failed_rate), "error" if totals.failed_rate else ""),
    )
    for state in ("waiting", "queued", "running", "retrying", "suspended"):
        made.append(f"  {state} {number(totals.jobs[state])}")
    waits = (
        ("requests", view.requests_waiting),
        ("reports", view.reports_waiting),
        ("delayed", view.delayed),
    )
    for name, count in waits:
        if count:
            made.append(f"  {name} {number(count)}", style="soft")
    return made


def _tabs(view: SystemView, chosen: int | None) -> Text:
    """The sections with the number of their lines; of a picture outside of a terminal the alarms alone."""
    made = Text()
    for index, section in enumerate(SECTIONS):
        count = len(section.lines(view))
        style = "error" if section.is_alarm and count else "soft"
        if index == chosen:
            style = f"{style} reverse" if style == "error" else "reverse"
        if chosen is not None or section.is_alarm:
            made.append(f"{section.name} {_many(section, count)}", style=style)
            made.append("  " if chosen is None else " ")
    return made


def _many(section: Section, count: int) -> str:
    """A number of lines; a list that is full may have more."""
    return f"{count}+" if section.is_limited and count == MAX_ROWS else str(count)


# -- a section ---------------------------------------------------------------------------------------------


def _section(view: SystemView, index: int, height: int) -> RenderableType:
    section = SECTIONS[index]
    lines = section.lines(view)
    rows = max(0, height - 2)
    title = Text(section.name, style="bold")
    if not lines and height >= _MIN_HEIGHT:
        return Group(title, Text("none", style="soft"), Text(""))
    if len(lines) > rows:
        title.append(f"  {rows} of {_many(section, len(lines))}", style="soft")
    return Group(title, _table(section, lines[:rows], view)) if height > 1 else title


def _table(section: Section, lines: Sequence[Any], view: SystemView) -> Table:
    made = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="soft")
    for header, name in section.columns.items():
        first = value_of(lines[0], name) if lines else ""
        is_number = isinstance(first, int) or (isinstance(first, Text) and bool(first.justify))
        justify: JustifyMethod = "right" if is_number else "left"
        made.add_column(header, justify=justify, no_wrap=True, overflow="ellipsis")
    for line in lines:
        cells = (
            cell(section.tones, name, value_of(line, name), view.at) for name in section.columns.values()
        )
        made.add_row(*cells)
    return made
