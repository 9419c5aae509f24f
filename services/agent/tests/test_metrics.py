"""The metrics of an agent: waiting times, running times, slots, and calls of the ledger."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from services.agent.tests.stage import dispatched

from warrener_agent.decisions.outcomes import (
    CancelledOutcome,
    FailedOutcome,
    Outcome,
    ReleasedOutcome,
    SucceededOutcome,
)
from warrener_agent.failures import HandlerSignal
from warrener_agent.ledger import Claim
from warrener_agent.ledger.port import Completion, LedgerUnavailable
from warrener_agent.metrics import AgentMetrics
from warrener_agent.run_table import Run, RunTable
from warrener_contracts.events import AttemptDispatched, ErrorInfo, ErrorKind
from warrener_runtime.telemetry import NO_CONTEXT
from warrener_runtime.telemetry.metric_names import (
    LEDGER_DURATION,
    PROCESS_DURATION,
    QUEUE_TIME,
    SLOTS,
    MetricSpec,
)
from warrener_runtime.telemetry.metrics import HistogramValue, LabelValues, Metrics

SENT = datetime(2026, 11, 22, tzinfo=UTC)
JOB = UUID(int=1)


def dispatch(*, not_before: datetime | None = None) -> AttemptDispatched:
    return dispatched("send", job_id=JOB, queue="mail", at=SENT, not_before=not_before)


def run() -> Run:
    return Run(dispatch().data, Claim(JOB, 1), [], SENT, 100.0, 160.0, NO_CONTEXT)


def histograms(metrics: Metrics, spec: MetricSpec) -> dict[LabelValues, HistogramValue]:
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
    assert histograms(metrics, QUEUE_TIME)["send", "mail"].total == waited


ERROR = ErrorInfo(kind=ErrorKind.ERROR, type="builtins.ValueError", message="no")


@pytest.mark.parametrize(
    ("outcome", "error_type"),
    [
        (SucceededOutcome(Completion(JOB, 1, "null", (), SENT, SENT), recorded=False), ""),
        (FailedOutcome(ERROR), "builtins.ValueError"),
        (FailedOutcome(ERROR, handler_signal=HandlerSignal.SNOOZED), "snoozed"),
        (CancelledOutcome("requested"), "cancelled"),
        (ReleasedOutcome("the agent ends"), "released"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_attempt_runs_from_its_start_to_its_end(outcome: Outcome, error_type: str) -> None:
    metrics = Metrics()
    AgentMetrics(metrics, ["mail"]).record_end(run(), outcome, 107.5)
    found = histograms(metrics, PROCESS_DURATION)
    assert {labels: value.total for labels, value in found.items()} == {
        ("warrener.queue.mail", "send", error_type): 7.5
    }


def test_slots_are_read_when_they_are_looked_at() -> None:
    metrics = Metrics()
    AgentMetrics(metrics, ["mail", "etl"]).watch_slots(RunTable(4))
    (reading,) = metrics.read()
    assert reading.spec is SLOTS
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
    assert histograms(metrics, LEDGER_DURATION).keys() == {("claim", ""), ("claim", "LedgerUnavailable")}
