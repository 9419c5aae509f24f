"""A job as rows of bars: each wait names its cause, each attempt its end, and long waits alone are folded."""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st
from tests.store_rows import NOON, after, attempt_of, queued_job, running_job, waiting_job

from warrener.render.time_axis import FOLD_FACTOR, FoldedAxis, TimeSpan, fold_waits
from warrener.render.waterfall import MAX_ATTEMPTS, MAX_CHILD_JOBS, Waterfall, WaterfallFacts, lay_out
from warrener.render.waterfall_bars import BarLook, MarkKind, RowKind, WaitGroup, WaterfallRow
from warrener_contracts.events import ErrorInfo, ErrorKind, Suspension
from warrener_contracts.policy import Backoff, JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobRow
from warrener_store.jobs.views import CheckpointRow
from warrener_store.workflows.rows import TurnRow

DAMAGED = ErrorInfo(kind=ErrorKind.ERROR, type="flights.days.Damaged", message="7 columns")


def ended(
    attempt: int,
    outcome: AttemptOutcome,
    times: tuple[float, float | None, float],
    verdict: str,
    error: ErrorInfo | None = None,
) -> AttemptRow:
    dispatched_at, started_at, finished_at = times
    return replace(
        attempt_of(running_job(attempt=attempt), outcome, error=error),
        dispatched_at=after(dispatched_at),
        started_at=None if started_at is None else after(started_at),
        finished_at=after(finished_at),
        verdict=verdict,
    )


def lost_since(seconds: float) -> ErrorInfo:
    message = f"agent a1 has not sent a heartbeat since {after(seconds).isoformat()}"
    return ErrorInfo(kind=ErrorKind.LOST, type="lost", message=message)


def finished(state: JobState, at: float, **fields: object) -> JobRow:
    return queued_job(state=state, wake_at=None, finished_at=after(at), requested_at=after(-1), **fields)


def names(waterfall: Waterfall) -> list[str]:
    return [row.name for row in waterfall.rows]


def bars(row: WaterfallRow) -> list[tuple[str, str, float]]:
    return [(bar.look.value, bar.text, bar.length.total_seconds()) for bar in row.bars]


def test_a_job_with_a_retry_and_a_lost_agent() -> None:
    attempts = [
        ended(1, AttemptOutcome.FAILED, (5, 6, 7), f"retry at {after(12).isoformat()}", DAMAGED),
        ended(2, AttemptOutcome.LOST, (8, 13, 30), f"retry at {after(31).isoformat()}", lost_since(20)),
        ended(3, AttemptOutcome.SUCCEEDED, (30.5, 32, 33), "done"),
    ]
    policy = JobPolicy(backoff=Backoff.fixed("5s"))
    job = finished(JobState.SUCCEEDED, 34, attempt=3, policy=policy)
    waterfall = lay_out(WaterfallFacts(row=job, attempts=attempts, now=after(99)))
    assert names(waterfall) == [
        "request",
        "delay",
        "attempt 1",
        "retry delay",
        "attempt 2",
        "queue",
        "attempt 3",
        "succeeded",
    ]
    request, delay, first, retry, second, _, third, verdict = waterfall.rows
    assert bars(request) == [("hatched", "request on its way", 1)]
    assert bars(delay) == [("hatched", "delay", 5), ("hatched", "queue", 1)]
    assert bars(first) == [("solid", "failed", 1)]
    assert first.detail == "failed on a1: Damaged: 7 columns"
    assert bars(retry) == [("hatched", "verdict", 1), ("hatched", "retry delay", 4), ("hatched", "queue", 1)]
    assert "5 s, ± 10%" in retry.detail
    assert bars(second) == [("solid", "lost", 7), ("hatched", "no heartbeat", 10)]
    assert second.bars[0].ragged
    assert [mark.kind for mark in second.marks] == [MarkKind.HEARTBEAT]
    assert bars(third) == [("solid", "succeeded", 1)]
    assert bars(verdict) == [("hatched", "verdict", 1)]
    assert [mark.kind for mark in verdict.marks] == [MarkKind.END]
    assert waterfall.now is None
    assert waterfall.summary == (
        "succeeded 35 s after its request, after 3 attempts (1 succeeded, 1 failed, 1 lost). "
        "Waits: no heartbeat 10 s, delay 5 s, retry delay 4.5 s."
    )


def test_a_repeated_error_is_written_once_and_then_named_by_its_attempt() -> None:
    crashed = ErrorInfo(kind=ErrorKind.LOST, type="HandlerCrashed", message="killed by SIGSEGV in load()")
    attempts = [
        ended(number, AttemptOutcome.FAILED, (2 * number, 2 * number, 2 * number + 1), "", error)
        for number, error in enumerate((crashed, crashed, DAMAGED, crashed), start=1)
    ]
    job = finished(JobState.DEAD, 10, attempt=4)
    rows = lay_out(WaterfallFacts(row=job, attempts=attempts, now=after(99))).rows
    assert [row.detail for row in rows if row.kind is RowKind.ATTEMPT] == [
        "failed on a1: HandlerCrashed: killed by SIGSEGV in load()",
        "failed on a1: HandlerCrashed: as attempt 1",
        "failed on a1: Damaged: 7 columns",
        "failed on a1: HandlerCrashed: as attempt 1",
    ]


def test_the_future_of_a_retry_is_planned() -> None:
    job = queued_job(
        state=JobState.RETRYING,
        attempt=2,
        failures=1,
        dispatched_at=after(3),
        due_at=after(63),
        updated_at=after(3),
    )
    attempts = [ended(1, AttemptOutcome.FAILED, (0, 1, 3), f"retry at {after(63).isoformat()}", DAMAGED)]
    facts = WaterfallFacts(row=job, attempts=attempts, now=after(10), expected=timedelta(seconds=2))
    waterfall = lay_out(facts)
    *_, wait, plan = waterfall.rows
    assert bars(wait) == [("hatched", "retry delay", 7), ("planned", "retry delay", 53)]
    assert plan.kind is RowKind.PLAN
    assert bars(plan) == [("planned", "planned", 2)]
    assert plan.detail == "planned for 12:01:03; usually takes 2 s"
    assert waterfall.now == after(10)
    assert [fold.text for fold in waterfall.axis.folds] == ["53 s retry delay"]


def test_an_attempt_that_runs_is_dashed_until_its_timeout() -> None:
    job = running_job(policy=JobPolicy(timeout=timedelta(minutes=1)), progress=0.5, progress_note="half")
    facts = WaterfallFacts(
        row=job,
        now=after(20),
        last_heartbeat=after(18),
        checkpoint=CheckpointRow(job_id=job.job_id, attempt=1, number=2, state={}, saved_at=after(9)),
    )
    row = lay_out(facts).rows[-1]
    assert bars(row) == [("solid", "runs", 20), ("planned", "until its timeout", 40)]
    assert row.detail == "runs on a1, 50% half, may run until 12:01:00"
    assert {mark.kind for mark in row.marks} == {MarkKind.HEARTBEAT, MarkKind.CHECKPOINT}


def test_a_silent_agent_leaves_a_ragged_end() -> None:
    row = lay_out(WaterfallFacts(row=running_job(), now=after(60), last_heartbeat=after(20))).rows[-1]
    assert bars(row)[:2] == [("solid", "runs", 20), ("hatched", "no heartbeat", 40)]
    assert row.bars[0].ragged
    assert row.bars[1].group is WaitGroup.SILENCE


def test_the_wait_behind_a_breaker_is_named_and_one_while_it_holds() -> None:
    attempts = [ended(1, AttemptOutcome.FAILED, (0, 1, 2), "not charged, held back: payments is open")]
    job = running_job(attempt=2, dispatched_at=after(60), started_at=after(61))
    wait = lay_out(WaterfallFacts(row=job, attempts=attempts, now=after(70))).rows[3]
    assert (wait.name, wait.bars[0].group) == ("breaker", WaitGroup.BLOCKED)
    assert "payments is open" in wait.detail
    job = queued_job(
        state=JobState.RETRYING, attempt=2, dispatched_at=None, due_at=after(3), updated_at=after(3)
    )
    *_, wait, plan = lay_out(WaterfallFacts(row=job, attempts=attempts, now=after(70))).rows
    assert bars(wait) == [("hatched", "breaker", 68)]
    assert plan.detail.startswith("once the breaker closes")


def test_a_snooze_is_no_retry() -> None:
    verdict = f"snoozed until {after(90).isoformat()}: not there yet"
    job = queued_job(state=JobState.RETRYING, attempt=2, due_at=after(90), updated_at=after(2))
    attempts = [ended(1, AttemptOutcome.SNOOZED, (0, 1, 2), verdict)]
    wait = lay_out(WaterfallFacts(row=job, attempts=attempts, now=after(30))).rows[-2]
    assert wait.name == "snooze"
    assert "not there yet" in wait.detail


def test_an_attempt_that_no_agent_began_is_a_wait() -> None:
    attempts = [ended(1, AttemptOutcome.NOT_STARTED, (0, None, 9), f"retry at {after(12).isoformat()}")]
    job = running_job(attempt=2, dispatched_at=after(10), started_at=after(13))
    waterfall = lay_out(WaterfallFacts(row=job, attempts=attempts, now=after(14)))
    assert names(waterfall) == ["request", "queue", "retry delay", "attempt 2"]
    assert "attempt 1 was not started: retry at 12:00:12" in waterfall.rows[1].detail


def test_a_request_from_a_clock_ahead_has_no_negative_length() -> None:
    facts = WaterfallFacts(row=waiting_job(requested_at=after(5), due_at=after(9)), now=after(1))
    waterfall = lay_out(facts)
    assert waterfall.axis.start == NOON
    assert all(bar.start <= bar.end for row in waterfall.rows for bar in row.bars)


def test_child_jobs_open_and_closed() -> None:
    parent = finished(JobState.SUCCEEDED, 10, attempt=1)
    child_jobs = [
        running_job(job_type="mail.send", requested_at=after(8), started_at=after(12)),
        finished(JobState.DEAD, 14, job_type="mail.send"),
    ]
    facts = WaterfallFacts(row=parent, now=after(20), child_jobs=child_jobs)
    head, first, second = lay_out(facts).rows[-3:]
    assert (head.name, head.detail, head.bars) == ("2 child jobs", "1 running, 1 dead", ())
    assert bars(first) == [("hatched", "waits", 4), ("solid", "running", 8)]
    assert second.job_id == child_jobs[1].job_id
    closed = lay_out(facts, open_child_jobs=False).rows[-1]
    assert closed.kind is RowKind.CHILD_JOBS
    assert len(closed.bars) == 3
    many = replace(facts, child_jobs=[child_jobs[1]] * (MAX_CHILD_JOBS + 1))  # as they are read: one more
    rows = [row for row in lay_out(many).rows if row.kind is not RowKind.CHILD_JOBS]
    assert sum(row.job_id == child_jobs[1].job_id for row in rows) == MAX_CHILD_JOBS
    (head,) = (row for row in lay_out(many).rows if row.kind is RowKind.CHILD_JOBS)
    assert (head.name, head.detail) == ("more than 50 child jobs", "50 dead of the newest 50")


def test_the_middle_of_many_attempts_shares_a_row() -> None:
    attempts = [
        ended(number, AttemptOutcome.FAILED, (number, number + 0.2, number + 0.7), "", DAMAGED)
        for number in range(1, 41)
    ]
    facts = WaterfallFacts(row=finished(JobState.DEAD, 42, attempt=40), attempts=attempts, now=after(99))
    waterfall = lay_out(facts)
    assert "attempts 4 to 27" in names(waterfall)
    folded = next(row for row in waterfall.rows if row.kind is RowKind.ATTEMPTS)
    assert folded.detail == "24 failed"
    assert sum(row.kind is RowKind.ATTEMPT for row in waterfall.rows) == MAX_ATTEMPTS
    whole = lay_out(facts, all_attempts=True)
    assert sum(row.kind is RowKind.ATTEMPT for row in whole.rows) == 40
    assert [bar for row in whole.rows for bar in row.bars] == [
        bar for row in waterfall.rows for bar in row.bars
    ]
    assert all(bar.look is not BarLook.PLANNED for row in whole.rows for bar in row.bars)


def span_of(start: float, end: float, text: str = "") -> TimeSpan:
    return TimeSpan(after(start), after(end), text)


def test_a_wait_longer_than_five_times_the_work_is_folded() -> None:
    axis = fold_waits(
        NOON,
        after(900),
        [span_of(2, 6, "queue"), span_of(10, 850, "retry delay")],
        [span_of(6, 10), span_of(850, 852)],
    )
    assert axis.folds == (span_of(10, 850, "14 min retry delay"),)
    before, behind = axis.position(after(10)), axis.position(after(850))
    assert behind - before < 0.13
    assert axis.position(after(4)) - axis.position(after(2)) > 0.02


def test_work_within_a_wait_and_the_present_are_never_folded_and_nothing_is_without_work() -> None:
    axis = fold_waits(NOON, after(1000), [span_of(0, 1000, "delay")], [span_of(400, 401)], [after(700)])
    assert [(fold.start, fold.end) for fold in axis.folds] == [
        (NOON, after(400)),
        (after(401), after(700)),
        (after(700), after(1000)),
    ]
    assert fold_waits(NOON, after(1e6), [span_of(0, 1e6)], []).folds == ()


moments = st.floats(0, 1e7).map(after)
spans = st.tuples(moments, moments).map(lambda pair: TimeSpan(min(pair), max(pair), "wait"))


@given(
    st.lists(spans, min_size=1, max_size=12),
    st.lists(spans, max_size=8),
    st.lists(moments, max_size=20),
    st.integers(1, 12),
)
def test_later_is_never_left_of_earlier_and_ticks_stand_at_round_times_outside_of_folds(
    waits: list[TimeSpan], work: list[TimeSpan], looked_at: list[datetime], count: int
) -> None:
    every = [*waits, *work]
    axis = fold_waits(min(one.start for one in every), max(one.end for one in every), waits, work)
    positions = [axis.position(moment) for moment in sorted(looked_at)]
    assert positions == sorted(positions)
    assert all(0 <= position <= 1 for position in positions)
    assert axis.position(axis.start) == 0
    assert axis.position(axis.end) == 1
    ticks = axis.ticks(count)
    assert len(ticks) <= 2 * count + len(axis.folds) + 2
    assert all(0 <= tick.position <= 1 for tick in ticks)
    limit = FOLD_FACTOR * sum((one.length for one in work), timedelta(0))
    for fold in axis.folds:
        assert fold.length > limit
        assert not any(one.start < fold.end and fold.start < one.end for one in work)
        start, end = axis.position(fold.start), axis.position(fold.end)
        assert not any(start + 1e-9 < tick.position < end - 1e-9 for tick in ticks)
    assert all(one.end <= two.start for one, two in pairwise(axis.folds))


def test_the_ticks_of_a_short_job() -> None:
    ticks = FoldedAxis(NOON, after(0.35)).ticks(4)
    assert [tick.text for tick in ticks] == ["0", "100 ms", "200 ms", "300 ms"]


def test_the_turns_of_a_workflow_are_one_bar_with_those_that_ran_between_them() -> None:
    turns = [
        TurnRow(
            job_id=uuid4(),
            attempt=number,
            began_at=after(10 * number),
            suspension=Suspension(),
            suspended_at=after(10 * number + 1),
        )
        for number in range(1, 400)
    ]
    row = queued_job(state=JobState.SUSPENDED, attempt=399, suspensions=399, requested_at=after(-1))
    laid_out = lay_out(WaterfallFacts(row=row, turns=turns, now=after(5000)))
    assert names(laid_out) == ["request", "delay", "its calls"]
    [bar] = laid_out.rows[-1].bars
    assert (bar.start, bar.end, bar.look) == (after(10), after(5000), BarLook.HATCHED)
    assert laid_out.rows[-1].detail == "of 399 turns"
    over = finished(JobState.SUCCEEDED, 5100, attempt=400, suspensions=399, dispatched_at=after(5050))
    last = ended(400, AttemptOutcome.SUCCEEDED, (5050, 5060, 5099), "done")
    laid_out = lay_out(WaterfallFacts(row=over, attempts=[last], turns=turns, now=after(6000)))
    assert names(laid_out)[2:] == ["its calls", "attempt 400", "succeeded"]


def test_a_limited_job_waits_for_its_limit_and_a_held_workflow_for_an_operator() -> None:
    limited = waiting_job(gates='[["job/crm.push/acme",2]]', due_at=after(0), wake_at=after(43_200))
    *_, wait, plan = lay_out(WaterfallFacts(row=limited, now=after(30))).rows
    assert (wait.name, wait.detail) == ("limit", "a slot of limit job/crm.push/acme")
    assert plan.detail == "once it gets a slot"
    held = queued_job(state=JobState.SUSPENDED, suspensions=1, ending_reason="its 5 attempts are used up")
    wait = lay_out(WaterfallFacts(row=held, now=after(30))).rows[-1]
    assert (wait.name, wait.bars[-1].group) == ("held", WaitGroup.BLOCKED)
    assert wait.detail == "its 5 attempts are used up; an operator resumes it, or undoes its calls"
