"""Workflows on a terminal: the calls of one in their order, and the tree of its jobs."""

from datetime import datetime

from rich.text import Text

from warrener.errors import UsageError
from warrener.gathering import gather_turns
from warrener.operations.noun import Backend
from warrener.operations.workflows import (
    CALL_TONES,
    CallState,
    JobCall,
    TreeJob,
    calls_of,
    read_journal,
    read_tree,
)
from warrener.render.jobs import id_text, state_text
from warrener.render.screen import err, out, print_json, table
from warrener.render.times import brief, clock
from warrener_contracts.events import CallKind
from warrener_contracts.journals import next_timer, unawaited_signals
from warrener_store.jobs.rows import JobRow


async def show_journal(backend: Backend, row: JobRow, *, as_json: bool) -> None:
    """Print the calls and the timers of a workflow in their order, or its journal as a test replays it.

    Raises UsageError for a job that has never suspended.
    """
    if not row.suspensions:
        why = "its first turn runs" if not row.state.terminal else "it made no call that it waited for"
        problem = f"expected a workflow with a journal, got a {row.job_type}: it is no workflow, or {why}"
        raise UsageError(problem, do=f"look at `warrener job {row.job_id}`")
    if as_json:
        print_json(await read_journal(backend, row))
        return
    (turns, jobs), now = await gather_turns(backend.store, row), await backend.now()
    calls = calls_of(row, turns, jobs, await backend.learn())
    seen, next_one = set[datetime](), next_timer(turns)
    is_over = row.state.terminal or row.ending is not None
    made = table(
        "turn", "call", "line", "state", "job", "called", "took", "answer", "undo", right=("turn", "took")
    )
    for turn in turns:
        for call in calls:
            if call.turn == turn.attempt:
                made.add_row(*_cells(call, now))
                for one in call.failures:
                    name, state = f"  item {one.index}", state_text(one.state)
                    made.add_row("", name, "", state, id_text(one.job_id), "", "", Text(one.error), "")
        until = None if turn.suspension is None else turn.suspension.wake_at
        if turn.suspension is not None and until is not None and until not in seen:  # later turns have it too
            seen.add(until)
            is_awaited = not is_over and next_one is not None and next_one[0] == until
            state = _call_state(CallState.AWAITED if is_awaited else CallState.CLOSED)
            since, line = clock(turn.suspended_at or until), turn.suspension.timer_line or ""
            made.add_row(str(turn.attempt), "timer", line, state, "", since, "", f"until {clock(until)}")
    if made.row_count:
        out().print(made)
    else:
        err().print("[soft]Its turns have made no call, or dropped each before they ended.[/]")
    for signal in unawaited_signals(turns, await backend.store.sent_signals(row.job_id)):
        line = f"received, not awaited: {signal.name}, {clock(signal.received_at)}"
        out().print(Text(line, style="warning"), soft_wrap=True)


def _cells(call: JobCall, now: datetime) -> tuple[str | Text, ...]:
    return (
        str(call.turn),
        Text(call.name if call.kind is CallKind.JOB else f"{call.kind.value} {call.name}"),
        call.line,
        _call_state(call.state) if call.job_state is None else state_text(call.job_state),
        "" if call.job_id is None else id_text(call.job_id),
        "" if call.called_at is None else clock(call.called_at),
        _length(call, now),
        Text(_answer(call)),
        f"{call.undo or ''} {call.undo_state.value if call.undo_state else ''}".strip(),
    )


def _answer(call: JobCall) -> str:
    """`1 succeeded, 2 failed` of a batch; `try 3: 17` of a step that was tried again."""
    if call.size:
        return ", ".join(filter(None, (call.answer, call.error)))
    tries = f"try {call.tries}: " if call.tries > 1 and call.state is not CallState.AWAITED else ""
    return tries + (call.error or call.answer)


def _call_state(state: CallState) -> Text:
    return Text(state.value, style=CALL_TONES[state])


def _length(call: JobCall, now: datetime) -> str:
    end = call.answered_at or (now if call.state is CallState.AWAITED else None)
    return brief(end - call.called_at) if call.called_at is not None and end is not None else ""


async def show_tree(backend: Backend, row: JobRow, *, as_json: bool) -> None:
    """Print a job with its child jobs below it, theirs below them, and so on."""
    tree = await read_tree(backend, row)
    if as_json:
        print_json(tree.jobs)
        return
    now, left_out = await backend.now(), list[TreeJob]()
    for one in tree.jobs:
        while left_out and left_out[-1].depth >= one.depth:
            _print_more(left_out.pop())
        length = brief((one.finished_at or now) - one.requested_at)
        line = Text("  " * one.depth).append_text(state_text(one.state)).append(f"  {one.job_type}  ")
        line.append_text(id_text(one.job_id))
        out().print(line.append(f"  {'' if one.finished_at else 'for '}{length}", "soft"), soft_wrap=True)
        left_out += [one] if one.more else []
    for one in reversed(left_out):
        _print_more(one)


def _print_more(one: TreeJob) -> None:
    """Print the number of child jobs that are left out."""
    many = f"{'  ' * one.depth}  and {'' if one.is_counted else 'at least '}{one.more:,} more"
    out().print(Text(f"{many}: warrener jobs --parent {one.job_id}", style="soft"), soft_wrap=True)
