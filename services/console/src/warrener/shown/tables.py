"""Lists as tables: no lines, no noise."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from rich.table import Table
from rich.text import Text

from warrener.shown.states import id_text, state_text
from warrener.shown.times import ago, span
from warrener_contracts.states import JobState
from warrener_store.rows import AgentRow, DeadLetter, JobRow, JobTypeRow, ParkedMessage, StateCount

_LONG = frozenset({"bound to", "differs", "verdict", "queues"})  # columns that may take several lines

SILENT_AFTER = timedelta(seconds=15)  # three heartbeats


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """An empty table in the house style."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="soft")
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold" if column in _LONG else "ellipsis",
            no_wrap=column not in _LONG,
        )
    return made


def jobs_table(rows: Iterable[JobRow], now: datetime, *, wide: bool = True) -> Table:
    """Jobs, one a line."""
    made = table("job", "type", "state", "attempt", "asked", "took", "why", right=("attempt", "took"))
    for row in rows:
        made.add_row(
            id_text(row.job_id, wide=wide),
            row.job_type,
            state_text(row.state),
            f"{row.attempt}/{row.policy.max_attempts}" if row.attempt else "",
            Text(ago(row.requested_at, now), style="soft"),
            _took(row),
            Text(_why(row, now), style="soft"),
        )
    return made


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
        "type", "queue", "attempts", "timeout", "guarantee", "announced", "about", right=("attempts",)
    )
    for row in rows:
        made.add_row(
            row.name,
            row.queue,
            str(row.policy.max_attempts),
            span(row.policy.timeout),
            row.guarantee.value,
            Text(ago(row.announced_at, now), style="soft"),
            Text(row.description, style="soft"),
        )
    return made


def agents_table(rows: Iterable[AgentRow], now: datetime) -> Table:
    """Agents, as their last heartbeats told."""
    made = table("agent", "queues", "running", "state", "up for", "last seen", right=("running",))
    for row in rows:
        made.add_row(
            row.agent_id,
            ", ".join(row.queues),
            f"{row.running}/{row.slots}",
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


def dead_table(rows: Iterable[DeadLetter], now: datetime, *, wide: bool = True) -> Table:
    """Dead letters."""
    made = table("job", "type", "attempts", "died", "why", right=("attempts",))
    for row in rows:
        error = f"{row.error.type}: {row.error.message}" if row.error else row.reason
        made.add_row(
            id_text(row.job_id, wide=wide),
            row.job_type,
            str(row.attempts),
            Text(ago(row.died_at, now), style="soft"),
            Text(one_line(error), style="bad"),
        )
    return made


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


def _why(row: JobRow, now: datetime) -> str:
    if row.state.terminal or row.state == "retrying":
        error = row.error if row.state != "succeeded" else None
        told = f"{error.type}: {error.message}" if error else (row.cancel_reason or "")
        return one_line(
            told if row.state.terminal or not row.due_at else f"{ago(row.due_at, now)}, after {told}"
        )
    if row.progress is not None:
        return f"{row.progress:.0%} {row.progress_note or ''}".strip()
    return f"due {ago(row.due_at, now)}" if row.state == "waiting" and row.due_at else ""
