"""The waterfall of a job: rows of bars on one time axis, from the rows of the store. Pure.

Each moment from the request to the end of a job, or to now, is within a bar, and each wait names its cause.
`warrener trace` draws it on a terminal, `warrener.web.charts.waterfall` on a page.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import groupby
from typing import TYPE_CHECKING

from warrener.explanations.facts import counted
from warrener.render.jobs import OUTCOME_TONES, limits_text, retries_text
from warrener.render.time_axis import FoldedAxis, TimeSpan, fold_waits
from warrener.render.times import MOMENT, brief, time_in_zone
from warrener.render.tones import STATE_SIGNS, Tone
from warrener.render.waterfall_bars import (
    BarLook,
    MarkKind,
    RowKind,
    WaitGroup,
    WaterfallBar,
    WaterfallMark,
    WaterfallRow,
)
from warrener_contracts.events import ErrorKind
from warrener_contracts.state_machine import JobState
from warrener_store.agents.rows import SILENT_AFTER
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobRow
from warrener_store.jobs.timeline import IntervalCause, JobInterval, job_timeline
from warrener_store.jobs.views import CheckpointRow

if TYPE_CHECKING:
    from warrener_store.workflows.rows import TurnRow

MAX_CHILD_JOBS = 50  # child jobs with a row each
MAX_ATTEMPTS = 16  # attempts with rows of their own; of more, the middle ones share a row
_FIRST_ATTEMPTS = 3
_PLANNED_SHARE = 0.08  # of the time so far: the length of a planned attempt of unknown duration
_SHORTEST_PLAN = timedelta(milliseconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """A drawing without a size. `now` is None for a job that is over."""

    title: str
    summary: str
    rows: tuple[WaterfallRow, ...]
    axis: FoldedAxis
    now: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaterfallFacts:
    """All that a waterfall is drawn from. `attempts`: those that are over. `zone` None: the local one.

    `last_heartbeat` is of the agent that runs the job, `expected` the usual duration of an attempt, and
    `turns` are those of a workflow.
    """

    row: JobRow
    attempts: Sequence[AttemptRow] = ()
    now: datetime
    child_jobs: Sequence[JobRow] = ()
    checkpoint: CheckpointRow | None = None
    last_heartbeat: datetime | None = None
    expected: timedelta | None = None
    turns: "Sequence[TurnRow]" = ()
    zone: tzinfo | None = field(default=UTC)

    def clock(self, moment: datetime) -> str:
        return time_in_zone(moment, self.now, self.zone)

    def localize(self, text: str) -> str:
        """Replace the times in a text by times of day."""
        return MOMENT.sub(lambda found: self.clock(datetime.fromisoformat(found.group())), text)


def lay_out(facts: WaterfallFacts, *, open_child_jobs: bool = True, all_attempts: bool = False) -> Waterfall:
    own = [replace(row, detail=_words(row.detail)) for row in _rows_of_job(facts)]
    own = _mark_moments(facts, own)
    rows = [
        *_write_errors_once(facts, own if all_attempts else _fold_attempts(own)),
        *_rows_of_child_jobs(facts, is_open=open_child_jobs),
    ]
    bars = [bar for row in rows for bar in row.bars]
    over = facts.row.state.terminal
    start = min(bar.start for bar in bars)
    end = max([bar.end for bar in bars] + ([] if over else [facts.now]))
    rows = [replace(row, marks=tuple(one for one in row.marks if start <= one.at <= end)) for row in rows]
    axis = fold_waits(
        start,
        end,
        [TimeSpan(bar.start, bar.end, bar.text) for bar in bars if bar.look is not BarLook.SOLID],
        [TimeSpan(bar.start, bar.end) for bar in bars if bar.look is BarLook.SOLID],
        [] if over else [facts.now],
    )
    return Waterfall(
        title=f"{facts.row.job_type} {str(facts.row.job_id)[-8:]}",
        summary=_summary(facts, own),
        rows=tuple(rows),
        axis=axis,
        now=None if over else min(max(facts.now, start), end),
    )


# -- the job itself ----------------------------------------------------------------------------------------


def _rows_of_job(facts: WaterfallFacts) -> Iterator[WaterfallRow]:
    row, intervals = facts.row, _closed_intervals(facts)
    by_number = {one.attempt: one for one in facts.attempts}
    yield _request_row(facts, intervals[0])
    last = intervals[-1]
    verdict = row.state.terminal and last.cause is IntervalCause.VERDICT
    rest = intervals[1:-1] if verdict else intervals[1:]
    for (runs, number), group in groupby(rest, lambda one: (one.cause is IntervalCause.ATTEMPT, one.attempt)):
        waits = list(group)
        if not runs:
            lasts = not row.state.terminal and waits[-1] is last
            yield _wait_row(facts, waits, by_number, lasts=lasts)
        for one in waits if runs else ():
            runs_still = one.outcome is None
            yield _running_row(facts, one) if runs_still else _attempt_row(facts, one, by_number[number])
    if row.state.terminal:
        yield _verdict_row(facts, last if verdict else None)
    elif row.state not in (JobState.RUNNING, JobState.SUSPENDED):  # of a next turn nothing is planned
        yield _planned_row(facts, last)


def _closed_intervals(facts: WaterfallFacts) -> list[JobInterval]:
    """The intervals of the job with an end each, none of which ends before it begins."""
    intervals = job_timeline(facts.row, facts.attempts, facts.now, facts.turns)
    request = intervals[0]
    assert request.end is not None
    intervals[0] = request._replace(start=min(request.start, request.end))  # clocks of clients may be ahead
    closed: list[JobInterval] = []
    for one in intervals:
        if closed and {one.cause, closed[-1].cause} <= _OF_TURNS:  # there may be thousands: they are one bar
            closed[-1] = closed[-1]._replace(cause=IntervalCause.CALLS, end=one.end, attempt=one.attempt)
        else:
            closed.append(one)
    return [one._replace(end=max(one.end or facts.now, one.start)) for one in closed]


def _request_row(facts: WaterfallFacts, interval: JobInterval) -> WaterfallRow:
    row = facts.row
    key = f", key {row.idempotency_key}" if row.idempotency_key else ""
    bar = _wait_bar(interval)
    mark = WaterfallMark(MarkKind.ACCEPTED, row.accepted_at, "accepted by a scheduler")
    return WaterfallRow(RowKind.REQUEST, "request", f"by {row.source}{key}", (bar,), (mark,))


_OF_TURNS = {IntervalCause.TURN, IntervalCause.CALLS}
_WAITS = {
    IntervalCause.REQUEST: ("request on its way", WaitGroup.TRANSIT),
    IntervalCause.DELAY: ("delay", WaitGroup.PLANNED),
    IntervalCause.BREAKER: ("breaker", WaitGroup.BLOCKED),
    IntervalCause.DISPATCH: ("dispatch", WaitGroup.RESOURCE),
    IntervalCause.SLOT: ("limit", WaitGroup.RESOURCE),
    IntervalCause.LIMIT: ("queue limit", WaitGroup.BLOCKED),
    IntervalCause.QUEUE: ("queue", WaitGroup.RESOURCE),
    IntervalCause.VERDICT: ("verdict", WaitGroup.TRANSIT),
    IntervalCause.RETRY: ("retry delay", WaitGroup.PLANNED),
    IntervalCause.TURN: ("turn", WaitGroup.RESOURCE),
    IntervalCause.CALLS: ("its calls", WaitGroup.RESOURCE),
    IntervalCause.HOLD: ("held", WaitGroup.BLOCKED),
}
_SNOOZE = "snooze"


def _wait_bar(interval: JobInterval, before: AttemptRow | None = None) -> WaterfallBar:
    assert interval.end is not None
    text, group = _cause_text(interval.cause, before), _WAITS[interval.cause][1]
    return WaterfallBar(BarLook.HATCHED, interval.start, interval.end, text, group=group)


def _wait_row(
    facts: WaterfallFacts, waits: Sequence[JobInterval], attempts: dict[int, AttemptRow], *, lasts: bool
) -> WaterfallRow:
    """The waits of one attempt, named by the longest, or by the one that lasts."""
    before = attempts.get(waits[0].attempt - 1)
    bars = [_wait_bar(one, before) for one in waits]
    main = waits[-1] if lasts else max(waits, key=lambda one: (one.end or one.start) - one.start)
    details = [_cause_detail(facts, main, before)]
    if len(waits) > 1:
        details.append(", ".join(f"{bar.text} {brief(bar.length)}" for bar in bars))
    here = attempts.get(main.attempt)
    if here is not None and here.outcome is AttemptOutcome.NOT_STARTED:
        details.append(f"attempt {here.attempt} was not started: {facts.localize(here.verdict)}")
    due_at = facts.row.due_at
    if lasts and due_at is not None and due_at > bars[-1].end:
        bars.append(replace(bars[-1], look=BarLook.PLANNED, start=bars[-1].end, end=due_at))
    detail = "; ".join(filter(None, details))
    name = _cause_text(main.cause, before)
    return WaterfallRow(RowKind.WAIT, name, detail, tuple(bars), attempt=main.attempt)


def _cause_text(cause: IntervalCause, before: AttemptRow | None) -> str:
    if cause is IntervalCause.RETRY and before is not None and before.outcome is AttemptOutcome.SNOOZED:
        return _SNOOZE
    return _WAITS[cause][0]


def _cause_detail(facts: WaterfallFacts, wait: JobInterval, before: AttemptRow | None) -> str:
    """The cause of a wait in words."""
    row = facts.row
    is_past = row.state not in {JobState.WAITING, JobState.RETRYING} and before is None
    if before is not None and (
        wait.cause is IntervalCause.BREAKER or _cause_text(wait.cause, before) == _SNOOZE
    ):
        return facts.localize(before.verdict)
    return {
        IntervalCause.QUEUE: f"waits for a free agent of queue {row.queue}",
        IntervalCause.LIMIT: f"queue {row.queue} takes no messages",
        IntervalCause.BREAKER: "held back by a circuit breaker",
        IntervalCause.SLOT: f"{'its time, or ' if is_past else ''}a slot of {limits_text(row)}",
        IntervalCause.DELAY: "the time that its request names",
        IntervalCause.DISPATCH: "due; a service dispatches it",
        IntervalCause.CALLS: f"of {counted(row.attempt, 'turn')}",
        IntervalCause.HOLD: f"{row.ending_reason}; an operator resumes it, or undoes its calls",
        IntervalCause.RETRY: f"{retries_text(row.policy)}, ± {row.policy.backoff.jitter:.0%}",
    }.get(wait.cause, "the report of the attempt, and the decision about it")


# -- attempts ----------------------------------------------------------------------------------------------


def _attempt_row(facts: WaterfallFacts, interval: JobInterval, over: AttemptRow) -> WaterfallRow:
    """An attempt that is over. One that was lost is solid until the last heartbeat of its agent."""
    assert interval.end is not None
    tone, outcome = OUTCOME_TONES[over.outcome], over.outcome.value.replace("_", " ")
    run = WaterfallBar(BarLook.SOLID, interval.start, interval.end, outcome, tone)
    seen = _last_sign(over)
    bars: tuple[WaterfallBar, ...] = (run,)
    marks: tuple[WaterfallMark, ...] = ()
    if over.outcome is AttemptOutcome.LOST:
        bars = (replace(run, ragged=True),)
        if seen is not None:
            seen = min(max(seen, run.start), run.end)
            bars, marks = _split_at_silence(run, seen), (_heartbeat(facts, seen),)
    words = [outcome]
    if over.agent_id:
        words[0] += f" on {over.agent_id}"
    if over.error is not None and over.outcome is not AttemptOutcome.SUCCEEDED:
        kind = over.error.type.rpartition(".")[-1]
        words += [kind] if kind != outcome else []
        words.append(facts.localize(over.error.message))
    name, detail = f"attempt {over.attempt}", ": ".join(words)
    return WaterfallRow(RowKind.ATTEMPT, name, detail, bars, marks, tone, attempt=over.attempt)


def _last_sign(over: AttemptRow) -> datetime | None:
    """When the agent of a lost attempt was last seen, as the error about the loss names it."""
    if over.error is None or over.error.kind is not ErrorKind.LOST:
        return None
    found = MOMENT.search(over.error.message)
    return None if found is None else datetime.fromisoformat(found.group())


def _split_at_silence(run: WaterfallBar, seen: datetime) -> tuple[WaterfallBar, ...]:
    silence = WaterfallBar(BarLook.HATCHED, seen, run.end, "no heartbeat", Tone.WARNING, WaitGroup.SILENCE)
    return (replace(run, end=seen, ragged=True), *((silence,) if seen < run.end else ()))


def _heartbeat(facts: WaterfallFacts, at: datetime) -> WaterfallMark:
    return WaterfallMark(MarkKind.HEARTBEAT, at, f"last heartbeat {facts.clock(at)}")


def _running_row(facts: WaterfallFacts, interval: JobInterval) -> WaterfallRow:
    """The attempt that runs: solid until now, dashed until its timeout."""
    assert interval.end is not None
    row, seen = facts.row, facts.last_heartbeat
    run = WaterfallBar(BarLook.SOLID, interval.start, interval.end, "runs", Tone.LIVE)
    bars: tuple[WaterfallBar, ...] = (run,)
    marks: tuple[WaterfallMark, ...] = ()
    words = ["runs" + (f" on {row.agent_id}" if row.agent_id else "")]
    if seen is not None and interval.start <= seen <= interval.end:
        marks = (_heartbeat(facts, seen),)
        if facts.now - seen > SILENT_AFTER:
            bars = _split_at_silence(run, seen)
            words.append(f"no heartbeat since {facts.clock(seen)}")
    if row.progress is not None:
        words.append(f"{row.progress:.0%} {row.progress_note or ''}".strip())
    if row.cancel_reason:
        words.append(f"its cancellation was requested: {row.cancel_reason}")
    limit = interval.start + row.timeout
    if limit > interval.end:
        words.append(f"may run until {facts.clock(limit)}")
        bars += (WaterfallBar(BarLook.PLANNED, interval.end, limit, "until its timeout", Tone.LIVE),)
    name, detail = f"attempt {interval.attempt}", ", ".join(words)
    return WaterfallRow(RowKind.ATTEMPT, name, detail, bars, marks, Tone.LIVE, attempt=interval.attempt)


def _fold_attempts(rows: list[WaterfallRow]) -> list[WaterfallRow]:
    """Put the middle ones of many attempts, with their waits, into one row."""
    numbers = [row.attempt for row in rows if row.kind is RowKind.ATTEMPT and row.attempt is not None]
    if len(numbers) <= MAX_ATTEMPTS:
        return rows
    first, last = numbers[_FIRST_ATTEMPTS], numbers[_FIRST_ATTEMPTS - MAX_ATTEMPTS - 1]
    inner = [row for row in rows if row.attempt is not None and first <= row.attempt <= last]
    ends = Counter(row.bars[0].text for row in inner if row.kind is RowKind.ATTEMPT)
    counted = ", ".join(f"{count} {text}" for text, count in ends.most_common())
    at = rows.index(inner[0])
    bars = tuple(bar for row in inner for bar in row.bars)
    folded = WaterfallRow(RowKind.ATTEMPTS, f"attempts {first} to {last}", counted, bars)
    return [*rows[:at], folded, *rows[at + len(inner) :]]


def _write_errors_once(facts: WaterfallFacts, rows: Iterable[WaterfallRow]) -> Iterator[WaterfallRow]:
    """Let a later attempt with an error of the same text name the first one that is shown with it."""
    errors = {one.attempt: one.error for one in facts.attempts if one.error is not None}
    first: dict[tuple[str, str], int] = {}
    for row in rows:
        shown = number = row.attempt or 0
        error = errors.get(number) if row.kind is RowKind.ATTEMPT else None
        message = _words(facts.localize(error.message)) if error is not None else ""
        if error is not None and message and row.detail.endswith(message):
            shown = first.setdefault((error.type, message), number)
        repeated = f"{row.detail.removesuffix(message)}as attempt {shown}"
        yield row if shown == number else replace(row, detail=repeated)


# -- end and future ----------------------------------------------------------------------------------------


def _verdict_row(facts: WaterfallFacts, interval: JobInterval | None) -> WaterfallRow:
    row = facts.row
    assert row.finished_at is not None
    sign, tone = STATE_SIGNS[row.state]
    verdict = facts.attempts[-1].verdict if facts.attempts else ""
    if row.state is JobState.CANCELLED:
        verdict = row.cancel_reason or verdict
    elif row.state is JobState.EXPIRED and row.deadline_at is not None:
        verdict = f"its deadline was {facts.clock(row.deadline_at)}"
    words = facts.localize(verdict).removeprefix(f"{row.state.value}: ")
    detail = "" if words == "done" else words
    bars = () if interval is None else (_wait_bar(interval),)
    mark = WaterfallMark(MarkKind.END, row.finished_at, row.state.value, tone)
    return WaterfallRow(RowKind.VERDICT, row.state.value, detail, bars, (mark,), tone, sign)


_PLANS = {
    IntervalCause.BREAKER: "once the breaker closes",
    IntervalCause.LIMIT: "once its queue takes messages",
    IntervalCause.SLOT: "once it gets a slot",
    IntervalCause.DISPATCH: "once a service dispatches it",
}


def _planned_row(facts: WaterfallFacts, wait: JobInterval) -> WaterfallRow:
    """The next attempt, dashed: as long as is expected, else as those before."""
    row = facts.row
    assert wait.end is not None
    begin = max(wait.end, row.due_at or wait.end)
    if begin > wait.end:
        words = f"planned for {facts.clock(begin)}"
    else:
        words = _PLANS.get(wait.cause, f"once an agent of queue {row.queue} is free")
    if facts.expected is not None:
        words += f"; usually takes {brief(facts.expected)}"
    length = facts.expected or max(_usual_length(facts, wait.end), _SHORTEST_PLAN)
    is_guess, number = facts.expected is None, max(row.attempt, 1)
    bar = WaterfallBar(BarLook.PLANNED, begin, begin + length, "planned", Tone.LIVE, ragged=is_guess)
    return WaterfallRow(RowKind.PLAN, f"attempt {number}", words, (bar,), attempt=number)


def _usual_length(facts: WaterfallFacts, now: datetime) -> timedelta:
    """The mean of the attempts before, or else a share of the time so far."""
    ran = [max(one.finished_at - one.started_at, timedelta(0)) for one in facts.attempts if one.started_at]
    return sum(ran, timedelta(0)) / len(ran) if ran else (now - facts.row.accepted_at) * _PLANNED_SHARE


def _mark_moments(facts: WaterfallFacts, rows: list[WaterfallRow]) -> list[WaterfallRow]:
    """Add checkpoint and deadline to the rows within which they happened."""
    saved, deadline = facts.checkpoint, facts.row.deadline_at
    marks: list[WaterfallMark] = []
    if saved is not None:
        text = f"checkpoint {saved.number}, saved {facts.clock(saved.saved_at)}"
        marks.append(WaterfallMark(MarkKind.CHECKPOINT, saved.saved_at, text))
    if deadline is not None:
        text = f"deadline {facts.clock(deadline)}"
        marks.append(WaterfallMark(MarkKind.DEADLINE, deadline, text, Tone.WARNING))
    for mark in marks:
        within = (row.bars and row.bars[0].start <= mark.at <= row.bars[-1].end for row in rows)
        at = max((index for index, covers in enumerate(within) if covers), default=len(rows) - 1)
        rows[at] = replace(rows[at], marks=(*rows[at].marks, mark))
    return rows


# -- child jobs --------------------------------------------------------------------------------------------


def _rows_of_child_jobs(facts: WaterfallFacts, *, is_open: bool) -> list[WaterfallRow]:
    """A row for all child jobs and, if they are open, one for each."""
    if not facts.child_jobs:
        return []
    shown = facts.child_jobs[:MAX_CHILD_JOBS]
    rows = [_child_row(child, facts.now) for child in shown]
    counts = Counter(child.state for child in shown)
    detail = ", ".join(f"{counts[state]} {state.value}" for state in JobState if counts[state])
    name = "1 child job" if len(rows) == 1 else f"{len(rows)} child jobs"
    if len(facts.child_jobs) > MAX_CHILD_JOBS:
        name, detail = f"more than {name}", f"{detail} of the newest {MAX_CHILD_JOBS}"
    bars = () if is_open else tuple(bar for row in rows for bar in row.bars)
    head = WaterfallRow(RowKind.CHILD_JOBS, name, detail, bars)
    return [head, *rows] if is_open else [head]


def _child_row(child: JobRow, now: datetime) -> WaterfallRow:
    """A child job: hatched until its current attempt began, then solid."""
    sign, tone = STATE_SIGNS[child.state]
    begin = child.requested_at
    end = max(child.finished_at or now, begin)
    started = child.started_at if child.started_at and begin <= child.started_at <= end else None
    bars: list[WaterfallBar] = []
    if started is None or started > begin:
        bars.append(WaterfallBar(BarLook.HATCHED, begin, started or end, "waits", tone, WaitGroup.RESOURCE))
    if started is not None:
        bars.append(WaterfallBar(BarLook.SOLID, started, end, child.state.value, tone))
    detail = f"{child.state.value}, {str(child.job_id)[-8:]}"
    parts = tuple(bars)
    return WaterfallRow(RowKind.CHILD_JOB, child.job_type, detail, parts, (), tone, sign, job_id=child.job_id)


# -- words -------------------------------------------------------------------------------------------------


def _words(text: str) -> str:
    """The text in one line, without signs that would steer a terminal or turn the direction of writing."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in " ".join(text.split()))


def _summary(facts: WaterfallFacts, rows: Iterable[WaterfallRow]) -> str:
    """Two sentences about the whole: how long it took, and for what it waited."""
    row = facts.row
    over, end = row.state.terminal, row.finished_at or max(facts.now, row.requested_at)
    ends = Counter(one.outcome for one in facts.attempts)
    counted = ", ".join(f"{ends[end]} {end.value.replace('_', ' ')}" for end in AttemptOutcome if ends[end])
    many = f"{len(facts.attempts)} attempt{'' if len(facts.attempts) == 1 else 's'}"
    attempts = f", after {many} ({counted})" if counted else ""
    waits: Counter[str] = Counter()
    for bar in (bar for one in rows for bar in one.bars if bar.look is BarLook.HATCHED):
        waits[bar.text] += round(bar.length.total_seconds() * 1_000_000)
    age = max(end - row.requested_at, timedelta(0))
    longest = [(text, timedelta(microseconds=length)) for text, length in waits.most_common(3)]
    waited = ", ".join(f"{text} {brief(length)}" for text, length in longest if length > age / 100)
    since = f"{brief(age)} after its request" if over else f"requested {brief(age)} ago"
    head = f"{row.state.value}{'' if over else ','} {since}"
    limit = "" if over or row.deadline_at is None else f" It expires at {facts.clock(row.deadline_at)}."
    return f"{head}{attempts}." + (f" Waits: {waited}." if waited else "") + limit
