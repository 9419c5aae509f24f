"""Dead letters, their causes and the redrives over them as tables and pages. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from warrener.render.jobs import id_text
from warrener.render.screen import facts_grid, jsonable, one_line, table
from warrener.render.times import ago, clock
from warrener_contracts.events import ErrorInfo
from warrener_store.dead_letters.rows import (
    DeadLetter,
    DeadLetterGroup,
    DeadLetterState,
    RedriveRow,
    RedriveState,
)

if TYPE_CHECKING:
    from warrener_store.jobs.rows import AttemptRow

_BAD = frozenset({DeadLetterState.DIED_AGAIN, DeadLetterState.DIED, DeadLetterState.REJECTED})
_REDRIVE_SIGNS = {
    RedriveState.CANARY: ("◐", "live"),
    RedriveState.ROLLING: ("◐", "live"),
    RedriveState.STOPPED: ("✗", "error"),
    RedriveState.DONE: ("●", "good"),
}


def dead_letters_table(rows: Iterable[DeadLetter], now: datetime, *, wide: bool = True) -> Table:
    """Dead letters, one a line."""
    made = table("job", "type", "cause", "attempts", "died", "state", "why", right=("attempts",))
    for row in rows:
        made.add_row(
            id_text(row.job_id, wide=wide),
            row.job_type,
            row.fingerprint or "-",
            str(row.attempts),
            Text(ago(row.died_at, now), style="soft"),
            dead_letter_state(row.state),
            Text(_why(row), style="error"),
        )
    return made


def causes_table(groups: Iterable[DeadLetterGroup], now: datetime) -> Table:
    """Causes, one a line, with one example each."""
    made = table("cause", "type", "jobs", "first", "last", "example", "why", right=("jobs",))
    for group in groups:
        made.add_row(
            Text(group.fingerprint or "-", style="key"),
            group.job_type,
            f"{group.dead_letters:,}",
            Text(ago(group.first_died_at, now), style="soft"),
            Text(ago(group.last_died_at, now), style="soft"),
            id_text(group.example.job_id, wide=False),
            Text(_why(group.example), style="error"),
        )
    return made


def dead_letter_state(state: DeadLetterState) -> Text:
    """The state of a dead letter in its colour."""
    style = "error" if state in _BAD else "good" if state is DeadLetterState.SUCCEEDED else "soft"
    return Text(state.value, style=style)


def dead_letter_page(
    dead_letter: DeadLetter, attempts: "Sequence[AttemptRow]", origin: DeadLetter | None
) -> Group:
    """The cause and the errors of a death, shown below the page of its job."""
    parts: list[RenderableType] = [Text("\ndead letter", style="soft")]
    grid = facts_grid()
    grid.add_row("cause", dead_letter.fingerprint or "none: it died before causes were recorded")
    grid.add_row("reason", dead_letter.reason)
    grid.add_row("state", dead_letter_state(dead_letter.state))
    if dead_letter.note:
        grid.add_row("note", dead_letter.note)
    if dead_letter.redriven_as:
        grid.add_row("redriven as", id_text(dead_letter.redriven_as))
    if origin:
        grid.add_row("in place of", id_text(origin.job_id))
    if dead_letter.redrive_id:
        grid.add_row("redrive", id_text(dead_letter.redrive_id))
    parts.append(Padding(grid, (0, 0, 0, 2), expand=False))
    parts += _errors(attempts)
    parts.append(Text(f"\n  {next_action(dead_letter)}"))
    return Group(*parts)


def next_action(dead_letter: DeadLetter) -> str:
    """The next action on a dead letter, and who takes it."""
    end = str(dead_letter.job_id)[-8:]
    match dead_letter.state:
        case DeadLetterState.OPEN | DeadLetterState.REOPENED | DeadLetterState.REJECTED:
            return (
                f"mend the cause, then: warrener dead-letters redrive {end} --dry-run; "
                f'or: warrener dead-letters drop {end} --reason "…"'
            )
        case DeadLetterState.CLAIMED:
            return "a redrive redrives it: warrener dead-letters redrives"
        case DeadLetterState.REDRIVEN:
            return f"redriven: warrener job {str(dead_letter.redriven_as)[-8:]}"
        case DeadLetterState.DIED_AGAIN | DeadLetterState.DIED:
            successor = str(dead_letter.redriven_as)[-8:]
            return f"it died again, and has another dead letter: warrener dead-letters show {successor}"
        case _:
            return f"nothing: it is {dead_letter.state.value}"


def _errors(attempts: "Sequence[AttemptRow]") -> Iterable[RenderableType]:
    """Each failed attempt; a stack is shown once."""
    from warrener.render.outcomes import outcome_text  # noqa: PLC0415 - lists need no rows of jobs

    shown: dict[str, int] = {}
    for attempt in attempts:
        if attempt.error is None:
            continue
        yield Text.assemble(
            (f"\nattempt {attempt.attempt} ", "soft"),
            outcome_text(attempt.outcome),
            (f" {attempt.agent_id or ''}", "soft"),
        )
        yield Padding(_error(attempt.error, attempt.attempt, shown), (0, 0, 0, 2), expand=False)


def _error(error: ErrorInfo, number: int, shown: dict[str, int]) -> Text:
    text = Text.assemble((f"{error.type}: ", "error"), error.message)
    if error.stack:
        first = shown.setdefault(error.stack, number)
        text.append(
            "\n" + error.stack.rstrip() if first == number else f"\n(the stack of attempt {first})",
            style="soft",
        )
    for name, value in jsonable(error).items():
        if name.startswith("flight") and value:
            text.append(f"\n{name.replace('_', ' ')}: {value}", style="soft")
    return text


def redrive_line(row: RedriveRow) -> Text:
    """`◐ rolling  812 succeeded  3 died`."""
    sign, style = _REDRIVE_SIGNS[row.state]
    counts = "  ".join(f"{count:,} {state}" for state, count in row.counts.items() if count)
    return Text.assemble((f"{sign} {row.state.value}", style), f"  {counts}")


def redrives_table(rows: Iterable[RedriveRow], now: datetime) -> Table:
    """Redrives, one a line."""
    made = table("redrive", "kind", "requested", "by", "state", "why")
    for row in rows:
        made.add_row(
            id_text(row.redrive_id, wide=False),
            row.kind.value.replace("_", " "),
            Text(ago(row.requested_at, now), style="soft"),
            row.requested_by,
            redrive_line(row),
            Text(one_line(row.stop_reason or row.reason), style="soft"),
        )
    return made


def redrive_page(row: RedriveRow) -> Group:
    """One redrive: its request, its progress and its journal."""
    journal = table("when", "who", "what")
    for entry in row.journal:
        journal.add_row(clock(entry.at), entry.by, Text(one_line(entry.action)))
    request = {name: value for name, value in row.request.items() if value not in (None, [], {}, "", False)}
    return Group(
        Text.assemble(redrive_line(row), "  ", id_text(row.redrive_id)),
        *([Text(f"  {row.stop_reason}", style="error")] if row.stop_reason else []),
        Padding(Text(f"{request}", style="soft"), (0, 0, 1, 2)),
        Padding(journal, (0, 0, 0, 2), expand=False),
    )


def _why(row: DeadLetter) -> str:
    return one_line(f"{row.error.type}: {row.error.message}" if row.error else row.reason)
