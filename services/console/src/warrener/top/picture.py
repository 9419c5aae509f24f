"""The picture of a view: a frame that fits the terminal, or all of it as plain text. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from warrener.render.screen import one_line
from warrener.render.times import clock
from warrener.top.readings import MAX_ROWS
from warrener.top.sections import SECTIONS, Section, number, rate
from warrener.top.view import SystemView

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
    """The picture with all sections that have rows."""
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
    lines = [_title(view, paused=choices is not None and choices.paused), _services(view), _jobs(view)]
    for name, trouble in (("store", view.store_trouble), ("broker", view.broker_trouble)):
        if trouble is not None:
            lines.append(Text(f"✗ {name}: {one_line(trouble)}", style="error"))
    lines.append(_alarms(view) if choices is None else _tabs(view, choices.section))
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


def _jobs(view: SystemView) -> Text:
    totals = view.totals
    made = Text.assemble(
        f"in/s {rate(totals.requested_rate)}  out/s {rate(totals.finished_rate)}  failed/s ",
        (rate(totals.failed_rate), "error" if totals.failed_rate else ""),
    )
    for state in ("waiting", "queued", "running", "retrying"):
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


def _alarms(view: SystemView) -> Text:
    made = Text()
    for section in SECTIONS:
        if section.is_alarm:
            count = len(section.lines(view))
            made.append(f"{section.name} {_many(section, count)}  ", style="error" if count else "soft")
    return made


def _tabs(view: SystemView, chosen: int) -> Text:
    made = Text()
    for index, section in enumerate(SECTIONS):
        count = len(section.lines(view))
        style = "error" if section.is_alarm and count else "soft"
        if index == chosen:
            style = f"{style} reverse" if style == "error" else "reverse"
        made.append(f"{section.name} {_many(section, count)}", style=style).append(" ")
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
    if len(lines) > rows:
        title.append(f"  {rows} of {_many(section, len(lines))}", style="soft")
    parts: list[RenderableType] = [title]
    if height > 1:
        parts.append(_table(section, lines[:rows], view))
    return (
        Group(*parts) if lines or height < _MIN_HEIGHT else Group(title, Text("none", style="soft"), Text(""))
    )


def _table(section: Section, lines: Sequence[Any], view: SystemView) -> Table:
    made = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="soft")
    numbers = section.numbers(lines)
    for header in section.columns:
        made.add_column(
            header, justify="right" if header in numbers else "left", no_wrap=True, overflow="ellipsis"
        )
    for line in lines:
        made.add_row(*section.cells(line, view.at))
    return made
