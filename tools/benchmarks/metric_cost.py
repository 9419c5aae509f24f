"""What a record of a metric costs, ours and the SDK's: `python -m tools.benchmarks.metric_cost`.

Nanoseconds of processor time, the lowest of several goes: a shared machine only ever adds to it.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from warrener_contracts.policy import JobPolicy
from warrener_runtime.telemetry import names
from warrener_runtime.telemetry.metric_names import JOB_DURATION, JOBS_FINISHED, PROCESS_DURATION, QUEUE_TIME
from warrener_runtime.telemetry.metrics import Metrics
from warrener_store.jobs.views import SucceededJob
from warrener_supervisor.metrics import SupervisorMetrics

_GOES, _RECORDS, _BATCH = 15, 20_000, 100
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def main() -> None:
    """Measure and print."""
    for name, cost in measure().items():
        print(f"{name:44} {cost:8.0f} ns")


def measure() -> dict[str, float]:
    """The cost of each kind of record."""
    metrics = Metrics()
    counter, histogram = metrics.counter(JOBS_FINISHED), metrics.histogram(JOB_DURATION)
    process, queue = metrics.histogram(PROCESS_DURATION), metrics.histogram(QUEUE_TIME)
    supervisor = SupervisorMetrics(metrics)
    jobs = [_job() for _ in range(_BATCH)]
    meter = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False).get_meter("bench")
    sdk_counter, sdk_histogram = meter.create_counter("c"), meter.create_histogram("h")
    labels = {names.JOB_TYPE: "send", names.JOB_STATE: "succeeded"}

    def attempt() -> None:
        queue.record((_NOW - jobs[0].requested_at).total_seconds(), "send", "default")
        process.record(0.25, "warrener.queue.default", "send", "")

    return {
        "counter": _cost(lambda: counter.add(1, "send", "succeeded")),
        "histogram": _cost(lambda: histogram.record(0.25, "send", "succeeded")),
        "counter of the SDK": _cost(lambda: sdk_counter.add(1, labels)),
        "histogram of the SDK": _cost(lambda: sdk_histogram.record(0.25, labels)),
        "an attempt: waited, ran": _cost(attempt),
        f"a success, in batches of {_BATCH}": _cost(lambda: supervisor.record_successes(jobs), _BATCH),
    }


def _cost(record: Callable[[], object], records: int = 1) -> float:
    """Nanoseconds of one record; the call around it is taken off."""
    calls = _RECORDS // records
    return (_best(record, calls) - _best(lambda: None, calls)) / (calls * records)


def _best(work: Callable[[], object], calls: int) -> float:
    found: list[int] = []
    for _ in range(_GOES):
        began = time.process_time_ns()
        for _ in range(calls):
            work()
        found.append(time.process_time_ns() - began)
    return min(found)


def _job() -> SucceededJob:
    begun = _NOW - timedelta(milliseconds=250)
    return SucceededJob(uuid4(), 1, None, _NOW, "send", JobPolicy(), None, None, None, begun, ())


if __name__ == "__main__":
    main()
