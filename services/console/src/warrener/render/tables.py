"""Lists as tables: no lines, no noise."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from rich.cells import cell_len
from rich.table import Column, Table
from rich.text import Text

from warrener.render.policy import retries_text
from warrener.render.screen import WIDE
from warrener.render.states import id_text, state_text
from warrener.render.times import ago, span
from warrener_contracts.states import JobState
from warrener_store.agents.rows import AgentRow, JobTypeRow
from warrener_store.jobs.rows import JobRow, StateCount
from warrener_store.parked.rows import ParkedMessage

_LONG = frozenset(
    {"bound to", "differs", "verdict", "queues", "retries after"}
)  # columns that may take several lines

_GAP = 2  # columns between columns
_SHORTEST_TYPE = 8
_NUMBERS = ("attempt", "age", "took")

SILENT_AFTER = timedelta(seconds=15)  # three heartbeats


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """An empty table in the house style."""
    made = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="soft")
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold" if column in _LONG else "ellipsis",
            no_wrap=column not in _LONG,
        )
    return made


def jobs_table(rows: Iterable[JobRow], now: datetime, *, width: int) -> Table:
    """Jobs, one a line. Where it is narrow: ends of ids, ages in one unit, errors without their module."""
    wide = width >= WIDE
    made = table("job", "type", "state", "attempt", "asked" if wide else "age", "took", "why", right=_NUMBERS)
    for row in rows:
        age = ago(row.requested_at, now) if wide else span(now - row.requested_at, units=1)
        made.add_row(
            id_text(row.job_id, wide=wide),
            row.job_type,
            state_text(row.state),
            f"{row.attempt}/{row.policy.max_attempts}" if row.attempt else "",
            Text(age, style="soft"),
            _took(row),
            Text(_why(row, now, wide=wide), style="soft", no_wrap=True),
        )
    _fit_columns(made, width)
    return made


def _fit_columns(made: Table, width: int) -> None:
    """First what can be read on the page of the job, then the type; never an id or a state."""
    _, kind, *_, why = made.columns
    why.no_wrap = False
    room = width - sum(_natural_width(column) + _GAP for column in made.columns if column is not kind)
    kind.max_width = max(room + _natural_width(why) - len("why"), _SHORTEST_TYPE)


def _natural_width(column: Column) -> int:
    return max(cell_len(str(text)) for text in (column.header, *column.cells))


def counts_line(counts: Iterable[StateCount]) -> Text:
    """`● 812 succeeded  ✗ 3 dead`, of all jobs."""
    totals: Counter[JobState] = Counter()
    for count in counts:
        totals[count.state] += count.jobs
    line = Text()
    for state in (state for state in JobState if totals[state]):
        shown = state_text(state)
        sign, name = shown.plain.split(" ", 1)
        line.append(f"{sign} {totals[state]:,} {name}   ", style=shown.style)
    return line


def types_table(rows: Iterable[JobTypeRow], now: datetime) -> Table:
    """Job types, as agents announced them."""
    made = table(
        "type",
        "queue",
        "attempts",
        "retries after",
        "timeout",
        "guarantee",
        "announced",
        "about",
        right=("attempts",),
    )
    for row in rows:
        made.add_row(
            row.name,
            row.queue,
            str(row.policy.max_attempts),
            retries_text(row.policy),
            span(row.policy.timeout),
            row.guarantee.value,
            Text(ago(row.announced_at, now), style="soft"),
            Text(row.description, style="soft"),
        )
    return made


def agents_table(rows: Iterable[AgentRow], now: datetime) -> Table:
    """Agents, as their last heartbeats told."""
    made = table(
        "agent", "queues", "running", "slots", "state", "up for", "last seen", right=("running", "slots")
    )
    for row in rows:
        made.add_row(
            row.agent_id,
            ", ".join(row.queues),
            str(row.running),
            str(row.slots),
            agent_state(row, now),
            Text(span(row.last_seen_at - row.started_at), style="soft"),
            Text(ago(row.last_seen_at, now), style="soft"),
        )
    return made


def agent_state(row: AgentRow, now: datetime) -> Text:
    """Whether it lives, as far as anybody has heard."""
    if now - row.last_seen_at > SILENT_AFTER:
        return Text("○ silent", style="soft")
    return Text("◐ draining", style="odd") if row.draining else Text("● alive", style="good")


def parked_table(rows: Iterable[ParkedMessage], now: datetime) -> Table:
    """Messages that nobody could understand."""
    made = table("queue", "reason", "parked", "size", "detail", right=("size",))
    for row in rows:
        made.add_row(
            row.queue,
            Text(row.reason, style="odd"),
            Text(ago(row.parked_at, now), style="soft"),
            f"{len(row.body):,} B",
            Text(one_line(row.detail), style="soft"),
        )
    return made


def one_line(text: str) -> str:
    """The text without its line ends."""
    return " ".join(text.split())


def _took(row: JobRow) -> str:
    if row.finished_at is None:
        return ""
    return span(row.finished_at - row.requested_at)


def _why(row: JobRow, now: datetime, *, wide: bool) -> str:
    if row.state.terminal or row.state == "retrying":
        error = row.error if row.state != "succeeded" else None
        reason = row.cancel_reason or ""
        if error:
            reason = f"{error.type if wide else error.type.rpartition('.')[-1]}: {error.message}"
        if row.state.terminal or not row.due_at:
            return one_line(reason)
        return one_line(
            f"{ago(row.due_at, now)}, after {reason}" if reason else f"due {ago(row.due_at, now)}"
        )
    if row.progress is not None:
        return f"{row.progress:.0%} {row.progress_note or ''}".strip()
    return f"due {ago(row.due_at, now)}" if row.state == "waiting" and row.due_at else ""
