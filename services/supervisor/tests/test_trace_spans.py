"""The supervisor's spans show the waits of a job, and the end of an attempt whose agent is gone."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from services.supervisor.tests.stage import (
    BOOM,
    JOB,
    NOW,
    STARTED,
    call,
    cancel,
    child,
    failed,
    lost,
    make,
    opened,
    overdue,
    released,
    running_row,
    signal_call,
    started,
    succeeded,
    suspended,
)

from warrener_contracts.circuit_breaker import BreakerPolicy
from warrener_contracts.events import Answer, ErrorInfo, ErrorKind, Event, Suspension
from warrener_contracts.identity import attempt_span_id, child_job_id
from warrener_contracts.policy import JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_runtime.telemetry import Telemetry, to_nanoseconds
from warrener_runtime.virtual_clock import VirtualClock
from warrener_store.breakers.gate import OpenBreakers
from warrener_store.jobs.rows import JobRow
from warrener_store.jobs.timeline import job_timeline
from warrener_store.jobs.views import SucceededJob
from warrener_store.workflows.rows import TurnRow
from warrener_supervisor.breakers.state_machine import open_breaker
from warrener_supervisor.decisions.context import JobTransition, JudgeContext, Timings
from warrener_supervisor.decisions.judge import JobBatch, JudgedEvent, judge, judge_all
from warrener_supervisor.trace_spans import JobSpans

TRACE_ID, ACCEPTED = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
OWN = f"00-{TRACE_ID}-{ACCEPTED}-01"
UNSAMPLED = f"00-{TRACE_ID}-{ACCEPTED}-00"


def spans_of(row: JobRow, *events: Event[Any]) -> list[ReadableSpan]:
    """The spans of what the judge decides about these."""
    batch = judge_all(row, [JudgedEvent(event, 0.5) for event in events], JudgeContext(NOW, Timings()))
    return recorded(batch, NOW)


def recorded(batch: JobBatch, now: datetime) -> list[ReadableSpan]:
    clock = VirtualClock(now)
    telemetry = Telemetry.in_memory("warrener-supervisor", clock=clock)
    JobSpans(telemetry, clock).record_batch(batch, now)
    return [*telemetry.spans()]


def waits(spans: list[ReadableSpan]) -> list[tuple[object, float, float]]:
    """Cause, start and end of each wait, in seconds before noon."""
    return [
        ((span.attributes or {})["warrener.wait.cause"], before(span.start_time), before(span.end_time))
        for span in spans
        if span.name == "wait flights.load"
    ]


def before(nanoseconds: int | None) -> float:
    assert nanoseconds is not None
    return (to_nanoseconds(NOW) - nanoseconds) / 1e9


def one(spans: list[ReadableSpan], operation: str) -> ReadableSpan:
    (found,) = (span for span in spans if span.name.startswith(operation))
    return found


def ids(span: ReadableSpan) -> tuple[str, str]:
    """Its own and its parent's."""
    context, parent = span.get_span_context(), span.parent
    assert context is not None
    assert parent is not None
    return f"{context.span_id:016x}", f"{parent.span_id:016x}"


def test_a_lost_attempt_has_the_span_that_its_agent_had_begun_and_the_verdict_stands_below() -> None:
    spans = spans_of(running_row(traceparent=OWN), lost())
    span = one(spans, "attempt")
    assert ids(span) == (attempt_span_id(JOB, 1, "agent-1"), ACCEPTED)
    assert (before(span.start_time), before(span.end_time)) == (40, 0)
    assert not span.status.is_ok
    assert (span.attributes or {})["error.type"] == "lost"
    assert ids(one(spans, "judge"))[1] == attempt_span_id(JOB, 1, "agent-1")


@pytest.mark.parametrize("finder", ["agent-1", "agent-2"])
def test_an_attempt_that_an_agent_finds_lost_has_the_span_of_the_one_that_ran_it(finder: str) -> None:
    died = ErrorInfo(kind=ErrorKind.LOST, type="lost", message="agent agent-1 has died, or was cut off")
    event = failed(error=died, agent=finder, at=NOW).model_copy(update={"traceparent": OWN})
    spans = spans_of(running_row(traceparent=OWN), event)
    span = one(spans, "attempt")
    assert ids(span) == (attempt_span_id(JOB, 1, "agent-1"), ACCEPTED)
    assert (before(span.start_time), before(span.end_time)) == (40, 0)
    assert (span.attributes or {})["warrener.agent.id"] == "agent-1"
    assert ids(one(spans, "judge"))[1] == attempt_span_id(JOB, 1, "agent-1")


@pytest.mark.parametrize(("agent", "same"), [("agent-2", True), ("agent-1", False)])
def test_an_attempt_that_begins_again_is_linked_from_the_one_that_was_lost(agent: str, *, same: bool) -> None:
    theirs = f"00-{TRACE_ID}-{attempt_span_id(JOB, 1, agent)}-01"
    event = started(agent=agent, at=STARTED).model_copy(update={"traceparent": theirs})
    span = one(spans_of(running_row(traceparent=OWN), event), "attempt")
    assert (before(span.start_time), before(span.end_time)) == (40, 30)
    assert (ids(span)[0] == attempt_span_id(JOB, 1, "agent-1")) is same, "no two spans have one identifier"
    assert [f"{link.context.span_id:016x}" for link in span.links] == [attempt_span_id(JOB, 1, agent)]


OPEN = open_breaker(None, "dependency:billing-api", BreakerPolicy(), "too much fails", NOW)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (failed(), [("breaker", 60, 0)]),
        (released(), [("breaker", 60, 0)]),
        (failed(retry_after_seconds=20), [("retry", 60, 40), ("breaker", 40, 0)]),
    ],
)
def test_a_retry_that_a_breaker_holds_waits_for_the_breaker(event: Any, expected: Any) -> None:
    row = running_row(traceparent=OWN, policy=JobPolicy(depends_on=("billing-api",)))
    judged_at, holding = NOW - timedelta(seconds=60), OpenBreakers([OPEN])
    ended = judge(row, event, JudgeContext(judged_at, Timings(), holding=holding))
    assert isinstance(ended, JobTransition)
    assert ended.attempt is not None
    row, spans = ended.row, list[ReadableSpan]()
    if row.due_at != judged_at:  # due in between, and the breaker is open still
        put_off = JudgeContext(NOW - timedelta(seconds=40), Timings(), holding=holding)
        batch = judge_all(row, [JudgedEvent(overdue(2), 0.5)], put_off)
        spans += recorded(batch, put_off.now)
        ((_, decision),) = batch.decisions
        assert isinstance(decision, JobTransition)
        row = decision.row
    attempt = replace(ended.attempt, dispatched_at=judged_at, started_at=judged_at, finished_at=judged_at)
    timeline = job_timeline(row, [attempt], NOW)
    spans += spans_of(row, overdue(2))
    assert waits(spans) == expected
    assert [one.cause.value for one in timeline][-len(expected) :] == [cause for cause, _, _ in expected]


def test_the_wait_of_a_short_attempt_is_recorded_with_its_end_and_so_is_its_report() -> None:
    event = failed()
    late = event.model_copy(
        update={"data": event.data.model_copy(update={"finished_at": NOW - timedelta(seconds=1)})}
    )
    assert waits(spans_of(make(traceparent=OWN), late)) == [("queue", 60, 30), ("verdict", 1, 0)]
    assert waits(spans_of(make(traceparent=OWN), cancel())) == [("queue", 60, 0)], "it ends with the job"


def test_a_verdict_that_buries_is_an_error() -> None:
    buried = one(spans_of(running_row(traceparent=OWN, failures=2), failed()), "judge")
    assert not buried.status.is_ok
    assert (buried.attributes or {})["error.type"] == "Boom"
    assert (buried.attributes or {})["warrener.job.state"] == "dead"
    retried = one(spans_of(running_row(traceparent=OWN), failed()), "judge")
    assert "error.type" not in (retried.attributes or {})


@pytest.mark.parametrize("due", [None, NOW - timedelta(seconds=45)])
def test_the_fast_path_records_the_same_waits(due: Any) -> None:
    clock = VirtualClock(NOW)
    telemetry = Telemetry.in_memory("warrener-supervisor", clock=clock)
    row = make(JobState.RETRYING if due else JobState.QUEUED, traceparent=OWN, due_at=due)
    job = SucceededJob(
        JOB,
        1,
        None,
        NOW,
        "flights.load",
        row.policy,
        None,
        OWN,
        None,
        NOW,
        (),
        waited_since=row.updated_at,
        was_due_at=row.due_at,
    )
    JobSpans(telemetry, clock).record_success(job, succeeded(), NOW)
    assert waits([*telemetry.spans()]) == waits(spans_of(row, succeeded()))


def test_a_trace_that_is_not_recorded_gets_no_span() -> None:
    assert spans_of(running_row(traceparent=UNSAMPLED), lost()) == []
    untraced = spans_of(running_row(), lost())
    assert [span.name for span in untraced] == ["judge flights.load"]


def test_each_answer_of_a_turn_ends_the_wait_for_its_call_and_a_hold_is_a_wait_for_an_operator() -> None:
    clock = VirtualClock(NOW)
    telemetry = Telemetry.in_memory("warrener-supervisor", clock=clock)
    spans = JobSpans(telemetry, clock)
    row = make(JobState.SUSPENDED, suspensions=2, traceparent=OWN, updated_at=NOW - timedelta(seconds=20))
    pay, packed = call("pay", line="shop.py:7"), signal_call("packed")
    turns = [
        TurnRow(
            job_id=row.job_id,
            attempt=1,
            suspension=Suspension(calls=(pay, packed)),
            suspended_at=NOW - timedelta(seconds=60),
        ),
        TurnRow(
            job_id=row.job_id,
            attempt=2,
            suspension=Suspension(wake_at=NOW, timer_line="shop.py:9"),
            suspended_at=NOW - timedelta(seconds=20),
        ),
    ]
    answers = (
        Answer(call_id="pay", at=NOW - timedelta(seconds=5), state=JobState.DEAD, error=BOOM),
        Answer(call_id="packed", at=NOW - timedelta(seconds=4), signal_id="s"),
        Answer(at=NOW),
    )
    spans.record_answers(row, turns, TurnRow(job_id=row.job_id, attempt=3, answers=answers))
    spans.record_hold(row, NOW)
    found = [
        (
            span.name,
            (span.attributes or {})["warrener.wait.cause"],
            (span.attributes or {}).get("warrener.call.line"),
            before(span.start_time),
            before(span.end_time),
            (span.attributes or {}).get("error.type"),
        )
        for span in telemetry.spans()
    ]
    assert found == [
        ("await shop.pay", "child", "shop.py:7", 60, 5, "Boom"),
        ("await packed", "signal", None, 60, 4, None),
        ("await timer", "timer", "shop.py:9", 20, 0, None),
        ("await operator", "held", None, 20, 0, None),
    ]
    assert {ids(span)[1] for span in telemetry.spans()} == {ACCEPTED}, "they stand beside the turns"
    assert (telemetry.spans()[0].attributes or {})["warrener.call.job.id"] == str(pay.job_id)
    many = tuple(answers[:1] * 300)
    spans.record_answers(row, turns, TurnRow(job_id=row.job_id, attempt=3, answers=many))
    spans.record_answers(make(JobState.SUSPENDED), turns, TurnRow(job_id=row.job_id, attempt=3, answers=many))
    assert len(telemetry.spans()) == 4 + 100


async def test_a_supervisor_records_the_waits_of_a_workflow_when_it_makes_the_next_turn() -> None:
    pay = call("pay")
    row = running_row(traceparent=OWN)
    async with opened(row, child("pay")) as harness:
        await harness.publish(suspended(1, pay), then=30)
        await harness.publish(succeeded(job_id=child_job_id(JOB, "pay"), result=7), then=1)
        (awaited,) = [one for one in harness.telemetry.spans() if one.name.startswith("await")]
        assert (awaited.name, ids(awaited)[1]) == ("await shop.pay", ACCEPTED)
        assert (awaited.attributes or {})["warrener.call.id"] == "pay"
