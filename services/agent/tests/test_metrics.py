"""The metrics of an agent, and the event that it publishes most often."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from services.agent.tests.stage import dispatched

from warrener_agent.decisions import outcomes
from warrener_agent.failures import HandlerSignal
from warrener_agent.ledger.port import ChildJobRequest, Claim, Completion, LedgerUnavailable
from warrener_agent.metrics import AgentMetrics
from warrener_agent.run_table import Run, RunTable
from warrener_agent.status_events import EventFactory
from warrener_contracts import events
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.messages import build_message
from warrener_runtime.clock import SystemEntropy
from warrener_runtime.telemetry import NO_CONTEXT, TraceContext, metric_names
from warrener_runtime.telemetry.metrics import HistogramValue, LabelValues, Metrics

SENT = datetime(2026, 11, 22, tzinfo=UTC)
JOB = UUID(int=1)


def dispatch(*, not_before: datetime | None = None) -> events.AttemptDispatched:
    return dispatched("send", job_id=JOB, queue="mail", at=SENT, not_before=not_before)


def run() -> Run:
    return Run(dispatch().data, Claim(JOB, 1), [], SENT, 100.0, 160.0, NO_CONTEXT)


def histograms(metrics: Metrics, spec: metric_names.MetricSpec) -> dict[LabelValues, HistogramValue]:
    (reading,) = (reading for reading in metrics.read() if reading.spec is spec)
    return dict(reading.histograms)


@pytest.mark.parametrize(
    ("not_before", "waited"),
    [(None, 90.0), (SENT + timedelta(seconds=60), 30.0), (SENT - timedelta(1), 90.0)],
)
def test_an_attempt_waits_from_its_dispatch_or_the_end_of_its_delay(
    not_before: datetime | None, waited: float
) -> None:
    metrics = Metrics()
    AgentMetrics(metrics).record_start(dispatch(not_before=not_before), SENT + timedelta(seconds=90))
    assert histograms(metrics, metric_names.QUEUE_TIME)["send", "mail"].total == waited


ERROR = events.ErrorInfo(kind=events.ErrorKind.ERROR, type="builtins.ValueError", message="no")


@pytest.mark.parametrize(
    ("outcome", "error_type"),
    [
        (outcomes.SucceededOutcome(Completion(JOB, 1, "null", (), SENT, SENT), recorded=False), ""),
        (outcomes.FailedOutcome(ERROR), "builtins.ValueError"),
        (outcomes.FailedOutcome(ERROR, handler_signal=HandlerSignal.SNOOZED), "snoozed"),
        (outcomes.CancelledOutcome("requested"), "cancelled"),
        (outcomes.ReleasedOutcome("the agent ends"), "released"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_attempt_runs_from_its_start_to_its_end(outcome: outcomes.Outcome, error_type: str) -> None:
    metrics = Metrics()
    AgentMetrics(metrics, ["mail"]).record_end(run(), outcome, 107.5)
    found = histograms(metrics, metric_names.PROCESS_DURATION)
    assert {labels: value.total for labels, value in found.items()} == {
        ("warrener.queue.mail", "send", error_type): 7.5
    }


def test_slots_are_read_when_they_are_looked_at() -> None:
    metrics = Metrics()
    AgentMetrics(metrics, ["mail", "etl"]).watch_slots(RunTable(4))
    (reading,) = metrics.read()
    assert reading.spec is metric_names.SLOTS
    assert reading.numbers == {
        ("mail", "free"): 4,
        ("mail", "used"): 0,
        ("etl", "free"): 4,
        ("etl", "used"): 0,
    }


def test_calls_of_the_ledger_are_timed_with_their_errors() -> None:
    metrics = Metrics()
    one = AgentMetrics(metrics)
    with one.ledger_call("claim"):
        pass
    with pytest.raises(LedgerUnavailable), one.ledger_call("claim"):
        raise LedgerUnavailable("away")
    assert histograms(metrics, metric_names.LEDGER_DURATION).keys() == {
        ("claim", ""),
        ("claim", "LedgerUnavailable"),
    }


# -- the event that is written without its model equals the event of the model --------------------------


TRACE = f"00-{'a' * 32}-{'b' * 16}-01"
MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(8999, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis adds the zone
ATTEMPTS = st.integers(1, 2**31 - 1)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e300, 1e300) | TEXTS
JSON = st.recursive(
    LEAVES, lambda some: st.lists(some, max_size=4) | st.dictionaries(TEXTS, some, max_size=4), max_leaves=8
)
COMPLETIONS = st.builds(
    Completion,
    st.uuids(),
    ATTEMPTS,
    JSON.map(json.dumps),
    st.lists(st.builds(ChildJobRequest, TEXTS, st.binary()), max_size=2).map(tuple),
    MOMENTS,
    MOMENTS,
)
CONTEXTS = st.sampled_from([TraceContext(), TraceContext(TRACE), TraceContext(TRACE, "vendor=1")])


@given(ATTEMPTS, CONTEXTS, COMPLETIONS)
def test_a_success_is_written_as_its_model_would_write_it(
    attempt: int, context: TraceContext, completion: Completion
) -> None:
    dispatch = dispatched("a.b", job_id=completion.job_id, attempt=attempt).data
    written = EventFactory("ada", SystemEntropy()).succeeded(dispatch, context, completion, 3)
    event = events.AttemptSucceeded(
        id=written.message_id,
        source="warrener/agent/ada",
        subject=str(completion.job_id),
        time=completion.finished_at,
        traceparent=context.traceparent,
        tracestate=context.tracestate,
        data=events.AttemptSucceededData(
            job_id=completion.job_id,
            attempt=attempt,
            job_type="a.b",
            agent_id="ada",
            started_at=completion.started_at,
            finished_at=completion.finished_at,
            result=completion.result,
            recorded_attempt=completion.attempt,
            child_jobs=3,
        ),
    )
    modelled = build_message(event)
    (found,) = decode(written.body, written.content_type)
    (expected,) = decode(modelled.body, modelled.content_type)
    assert isinstance(found, DecodedEvent), found
    assert isinstance(expected, DecodedEvent), expected
    assert found.event == expected.event
    assert _without_body(written) == _without_body(modelled)


def _without_body(message: Any) -> list[Any]:
    return list(message._replace(body=b""))
