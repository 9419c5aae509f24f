"""An explanation on a page: the cause first, then the checks on the way to it. Pure."""

from collections.abc import Iterator
from datetime import datetime

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from warrener.explanations.explanation import Explanation, StepStatus
from warrener.render.screen import facts_grid
from warrener.render.times import ago, clock

_SIGNS = {
    StepStatus.PASSED: ("✓", "good"),
    StepStatus.BLOCKED: ("✗", "bad"),
    StepStatus.WAITING: ("…", "live"),
    StepStatus.UNKNOWN: ("?", "odd"),
}


def explanation_page(found: Explanation, now: datetime) -> Group:
    """Render the whole explanation."""
    head = Text.assemble((found.subject, "key"), "  ", (found.state, "soft"))
    sign, style = _SIGNS[found.steps[-1].status if found.steps else StepStatus.UNKNOWN]
    cause = Text.assemble((f"{sign} ", style), found.sentence)
    grid = facts_grid()
    for name, value in _facts(found, now):
        grid.add_row(name, value)
    parts: list[RenderableType] = [head, cause, Padding(grid, (1, 0, 1, 2), expand=False), _steps(found)]
    parts += [Text(f"! {note}", style="odd") for note in found.notes]
    return Group(*parts)


def _facts(found: Explanation, now: datetime) -> Iterator[tuple[str, RenderableType]]:
    if found.since is not None:
        yield "since", f"{clock(found.since)}, {ago(found.since, now)}"
    if found.until is not None:
        yield "until", f"{clock(found.until)}, {ago(found.until, now)}"
    yield "next", Text(found.next)
    if found.command is not None:
        yield "run", Text(found.command, style="key")
    yield "cause", Text(found.cause.value, style="soft")


def _steps(found: Explanation) -> Table:
    made = Table.grid(padding=(0, 2, 0, 0))
    for step in found.steps:
        sign, style = _SIGNS[step.status]
        made.add_row(Text(sign, style=style), Text(step.name, style="soft"), Text(step.detail))
    return made
