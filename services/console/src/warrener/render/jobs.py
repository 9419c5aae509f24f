"""Jobs, job types, agents and parked messages as tables and lines. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.table import Column, Table
from rich.text import Text

from warrener.render.screen import GAP, WIDE, one_line, table
from warrener.render.times import ago, clock, span
from warrener.render.tones import STATE_SIGNS
from warrener_contracts.state_machine import JobState

if TYPE_CHECKING:  # a list of one kind of row needs no other kind
    from warrener_contracts.policy import Backoff, JobPolicy
    from warrener_store.agents.rows import AgentRow, JobTypeRow
    from warrener_store.jobs.rows import JobRow, StateCount
    from warrener_store.parked.rows import ParkedGroup, ParkedMessage

_MIN_TYPE_WIDTH = 8  # columns
_MAX_DELAYS_SHOWN = 6


def state_text(state: JobState) -> Text:
    """`● succeeded` in green."""
    sign, style = STATE_SIGNS[state]
    return Text(f"{sign} {state.value}", style=style)


def id_text(job_id: object, *, wide: bool = True) -> Text:
    """An id, of which the last eight characters are enough for a command; on a narrow screen these alone."""
    whole = str(job_id)
    return Text.assemble((whole[:-8] if wide else "", "soft"), (whole[-8:], "key"))


# -- jobs --------------------------------------------------------------------------------------------------


def jobs_table(rows: "Iterable[JobRow]", now: datetime, *, width: int) -> Table:
    """Jobs, one a line. A narrow table has ends of ids, ages in one unit, errors without their module."""
    wide = width >= WIDE
    columns = ("job", "type", "state", "attempt", "requested" if wide else "age", "took", "why")
    made = table(*columns, right=("attempt", "age", "took"))
    for row in rows:
        age = ago(row.requested_at, now) if wide else span(now - row.requested_at, units=1)
        made.add_row(
            id_text(row.job_id, wide=wide),
            row.job_type,
            state_text(row.state),
            f"{row.attempt}/{row.policy.max_attempts}" if row.attempt else "",
            Text(age, style="soft"),
            "" if row.finished_at is None else span(row.finished_at - row.requested_at),
            Text(_why(row, now, wide=wide), style="soft", no_wrap=True),
        )
    _fit_columns(made, width)
    return made


def _fit_columns(made: Table, width: int) -> None:
    """Cut the reason first, which the page of the job has too, then the type; never an id or a state."""
    _, kind, *_, why = made.columns
    why.no_wrap = False
    room = width - sum(_natural_width(column) + GAP for column in made.columns if column is not kind)
    kind.max_width = max(room + _natural_width(why) - len("why"), _MIN_TYPE_WIDTH)


def _natural_width(column: Column) -> int:
    return max(cell_len(str(text)) for text in (column.header, *column.cells))


def _why(row: "JobRow", now: datetime, *, wide: bool) -> str:
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


def counts_line(counts: "Iterable[StateCount]") -> Text:
    """`● 812 succeeded  ✗ 3 dead`, of all jobs."""
    totals: Counter[JobState] = Counter()
    for count in counts:
        totals[count.state] += count.jobs
    line = Text()
    for state in (state for state in JobState if totals[state]):
        sign, style = STATE_SIGNS[state]
        line.append(f"{sign} {totals[state]:,} {state.value}   ", style=style)
    return line


# -- policies ----------------------------------------------------------------------------------------------


def retries_text(policy: "JobPolicy") -> str:
    """`1 s x2 to 5 min, only requests.*, not ValueError, at most 2 h old`."""
    age = () if policy.max_age is None else (f"at most {_span(policy.max_age)} old",)
    return ", ".join((_curve(policy.backoff), *_errors(policy), *age))


def job_retries_text(row: "JobRow") -> str:
    """As `retries_text`, with the jitter, and the time after which no attempt begins."""
    parts = [_curve(row.policy.backoff), f"± {row.policy.backoff.jitter:.0%}", *_errors(row.policy)]
    if row.policy.max_age is not None:
        parts.append(f"none after {clock(row.accepted_at + row.policy.max_age)}")
    return ", ".join(parts)


def _curve(backoff: "Backoff") -> str:
    """`30 s` always, `10 s +10 s to 5 min`, `1 s x2 to 5 min`, or the list: `1 s, 1 min, 1 h`."""
    first = _span(backoff.base_delay(1))
    if backoff.delays is not None:
        more = " …" if len(backoff.delays) > _MAX_DELAYS_SHOWN else ""
        return ", ".join(map(_span, backoff.delays[:_MAX_DELAYS_SHOWN])) + more
    if backoff.base_delay(2) == backoff.base_delay(1):
        return first
    step = f"x{backoff.factor:g}" if backoff.step is None else f"+{_span(backoff.step)}"
    return f"{first} {step} to {_span(backoff.limit)}"


def _errors(policy: "JobPolicy") -> Iterator[str]:
    if policy.retry_on:
        yield f"only {' '.join(policy.retry_on)}"
    if policy.no_retry_on:
        yield f"not {' '.join(policy.no_retry_on)}"


def _span(length: timedelta) -> str:
    seconds = length.total_seconds()
    return f"{seconds:g} s" if seconds < 60 else span(length)


# -- job types, agents, parked messages --------------------------------------------------------------------


def types_table(rows: "Iterable[JobTypeRow]", now: datetime) -> Table:
    """Job types, as agents announced them."""
    columns = ("type", "queue", "attempts", "retries after", "timeout", "guarantee", "announced", "about")
    made = table(*columns, right=("attempts",))
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


def agents_table(rows: "Iterable[AgentRow]", now: datetime) -> Table:
    """Agents, as of their last heartbeats."""
    columns = ("agent", "queues", "running", "slots", "state", "up for", "last seen")
    made = table(*columns, right=("running", "slots"))
    for row in rows:
        made.add_row(
            row.agent_id,
            ", ".join(row.queues),
            str(row.running),
            str(row.slots),
            _agent_state(row, now),
            Text(span(row.last_seen_at - row.started_at), style="soft"),
            Text(ago(row.last_seen_at, now), style="soft"),
        )
    return made


def _agent_state(row: "AgentRow", now: datetime) -> Text:
    from warrener_store.agents.rows import SILENT_AFTER  # noqa: PLC0415 - lists of jobs need no agents

    if now - row.last_seen_at > SILENT_AFTER:
        return Text("○ silent", style="soft")
    return Text("◐ draining", style="warning") if row.draining else Text("● alive", style="good")


def parked_table(rows: "Iterable[ParkedMessage]", now: datetime) -> Table:
    """Parked messages, one a line."""
    made = table("queue", "reason", "parked", "size", "detail", right=("size",))
    for row in rows:
        made.add_row(
            row.queue,
            Text(row.reason, style="warning"),
            Text(ago(row.parked_at, now), style="soft"),
            f"{len(row.body):,} B",
            Text(one_line(row.detail), style="soft"),
        )
    return made


def parked_groups_table(groups: "Iterable[ParkedGroup]", now: datetime) -> Table:
    """Parked messages by queue and reason."""
    made = table("queue", "reason", "messages", "first", "last", right=("messages",))
    for group in groups:
        made.add_row(
            group.queue, group.reason, str(group.messages), ago(group.first, now), ago(group.last, now)
        )
    return made
