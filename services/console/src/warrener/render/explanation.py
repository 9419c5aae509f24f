"""An explanation on a page: the cause first, then the checks on the way to it. Pure."""

from collections.abc import Iterator
from datetime import datetime

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from warrener.explanations.causes import StepStatus
from warrener.explanations.explanation import Explanation
from warrener.render.screen import facts_grid
from warrener.render.times import ago, clock

_SIGNS = {
    StepStatus.PASSED: ("✓", "good"),
    StepStatus.BLOCKED: ("✗", "error"),
    StepStatus.WAITING: ("…", "live"),
    StepStatus.UNKNOWN: ("?", "warning"),
}


def explanation_page(found: Explanation, now: datetime) -> Group:
    head = Text.assemble((found.subject, "key"), "  ", (found.state, "soft"))
    notes = (Text(f"! {note}", style="warning") for note in found.notes)
    return Group(head, cause_text(found, now), "", _steps(found), *notes)


def cause_text(found: Explanation, now: datetime) -> Group:
    sign, style = _SIGNS[found.steps[-1].status]
    parts: list[RenderableType] = [Text.assemble((f"{sign} ", style), found.sentence)]
    if found.detail:
        parts.append(Padding(Text(found.detail), (0, 0, 0, 2), expand=False))
    return Group(*parts, Padding(facts_grid(_facts(found, now)), (1, 0, 0, 2), expand=False))


def next_line(found: Explanation, now: datetime) -> str:
    return f"{found.next} {ago(found.until, now)}" if found.until is not None else found.next


def _facts(found: Explanation, now: datetime) -> Iterator[tuple[str, RenderableType]]:
    if found.since is not None:
        yield "since", f"{clock(found.since)}, {ago(found.since, now)}"
    if found.next:
        yield "next", Text(next_line(found, now) + (f" ({clock(found.until)})" if found.until else ""))
    for command in found.commands:
        yield "run", Text(command, style="key")
    yield "cause", Text(found.cause.value, style="soft")


def _steps(found: Explanation) -> Table:
    made = Table.grid(padding=(0, 2, 0, 0))
    for step in found.steps:
        sign, style = _SIGNS[step.status]
        made.add_row(Text(sign, style=style), Text(step.name, style="soft"), Text(step.detail))
    return made
