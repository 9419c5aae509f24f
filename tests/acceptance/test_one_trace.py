"""A job is one trace without a hole: retries, a killed agent, a death. A redrive is another, linked to it.
The services count what they do, for Prometheus and by OTLP.

The same story is read from a small OTLP sink, and from a real Jaeger with `make test-jaeger`.
"""

import os
import re
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
from tests.acceptance.command_line import run_json
from tests.acceptance.otlp_receiver import Jaeger, Receiver, SpanSeen, jaeger, longest_hole, receiver
from tests.acceptance.store_queries import state_of
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient
from warrener_contracts.state_machine import JobState
from warrener_runtime.telemetry import names

HANDLERS = """
import time
from pathlib import Path
from warrener_agent import Agent, JobContext

agent = Agent()
here = Path(__file__).parent

@agent.job("trace.third_time", max_attempts=3, backoff={"first": 1, "jitter": 0})
async def third_time(job: JobContext) -> int:
    if job.attempt < 3:
        raise RuntimeError("not yet")
    return job.attempt

@agent.job("trace.survivor", max_attempts=3)
def survivor(job: JobContext) -> int:
    if (here / "begun").exists():
        return job.attempt
    (here / "begun").touch()
    while True:
        time.sleep(1)

@agent.job("trace.mended", max_attempts=1)
def mended(job: JobContext) -> str:
    if not (here / "mended").exists():
        raise ValueError("it is broken")
    return "mended"
"""
SETTINGS = {
    "WARRENER_AGENT_CLAIM_TTL": "9",
    "WARRENER_SUPERVISOR_AGENT_TIMEOUT": "10",
    "WARRENER_AGENT_HEARTBEAT": "1",
    "WARRENER_AGENT_ANNOUNCE_DELAY": "0",
    "WARRENER_OTLP_PROTOCOL": "http/protobuf",
}
TRACES = {
    "third_time": "0af7651916cd43dd8448eb211c80319c",
    "survivor": "1bf7651916cd43dd8448eb211c80319c",
    "mended": "2cf7651916cd43dd8448eb211c80319c",
}
CALLER = "b7ad6b7169203331"
SAMPLE = re.compile(r"([a-z_]+)(?:\{.*\})? (\S+)")
MAX_HOLE = 0.05
"""Seconds that no span need explain."""


@pytest.fixture(params=["sink", "jaeger"])
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Receiver | Jaeger]:
    """A small sink, and a real Jaeger if there is one."""
    if request.param == "sink":
        with receiver() as sink:
            yield sink
        return
    binary = os.environ.get("WARRENER_TEST_JAEGER")
    if not binary:
        pytest.skip("WARRENER_TEST_JAEGER names no Jaeger: make test-jaeger builds one")
    with jaeger(Path(binary), tmp_path / "jaeger.log") as server:
        yield server


def test_retries_a_killed_agent_a_death_and_a_redrive_are_traces_without_a_hole(
    warren: Warren, reader: Receiver | Jaeger
) -> None:
    (warren.folder / "story.py").write_text(HANDLERS)
    environment = {**SETTINGS, "WARRENER_OTLP_ENDPOINT": reader.endpoint}
    if isinstance(reader, Receiver):  # Jaeger takes no metrics
        environment["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"] = f"{reader.endpoint}/v1/metrics"
        environment["OTEL_METRIC_EXPORT_INTERVAL"] = "500"
    warren.environment = environment
    warren.start_all("story")
    first_agent = warren.services[-1]
    with SyncClient(warren.broker_url) as client:

        def request(name: str) -> UUID:
            return client.request(f"trace.{name}", {}, traceparent=f"00-{TRACES[name]}-{CALLER}-01").job_id

        jobs = {name: request(name) for name in TRACES}
        client.request("trace.third_time", {"surplus": 1})

        def until_in(name: str, state: JobState) -> None:
            until(lambda: state_of(warren, jobs[name]) is state, f"{name} to be {state}")

        until_in("survivor", JobState.RUNNING)
        until_in("third_time", JobState.SUCCEEDED)
        until_in("mended", JobState.DEAD)
        until(
            lambda: _ends_are_exported(reader), "the agent to export all spans, which it would take with it"
        )
        first_agent.kill()
        warren.start("agent", "story")
        until_in("survivor", JobState.SUCCEEDED)
        (warren.folder / "mended").touch()
        run_json(warren, "dead-letters", "redrive", str(jobs["mended"]), "--reason", "it is mended")
        if isinstance(reader, Receiver):
            until(partial(_has_samples, warren), "each service to be scraped with what it has done")
            live = reader.metric_names
            wanted = {"warrener-scheduler", "warrener-agent", "warrener-supervisor"}
            until(lambda: live.keys() >= wanted, "metrics to be pushed while the services live")
    warren.end()  # what was not exported yet is exported at the end

    spans = until(lambda: _complete(reader), "the spans of the redriven job")
    by_trace = {name: [span for span in spans if span.trace_id == TRACES[name]] for name in TRACES}
    for trace in by_trace.values():
        _assert_connected(trace, outside={CALLER})
    _assert_retries(by_trace["third_time"])
    _assert_survivor(by_trace["survivor"])
    _assert_death_and_redrive(by_trace["mended"], spans, jobs["mended"])
    assert {span.service for span in spans} == {"warrener-scheduler", "warrener-agent", "warrener-supervisor"}
    (refusal,) = (span for span in spans if span.operation == "accept" and span.failed)
    assert refusal.attributes[names.ERROR_TYPE] == "bad_arguments"
    if isinstance(reader, Receiver):  # Jaeger has attributes of its own
        declared = {spec.operation: spec for spec in names.declared_spans()}
        for span in spans:
            spec = declared[span.operation]
            assert span.attributes.keys() <= {*spec.attributes, *spec.constants}, span.name
            assert spec.constants.items() <= span.attributes.items()
        pushed = reader.metric_names
        assert pushed.keys() == {"warrener-scheduler", "warrener-agent", "warrener-supervisor"}
        assert "warrener.job.duration" in pushed["warrener-supervisor"]


def _has_samples(warren: Warren) -> bool:
    """Whether the services have these samples, which Prometheus scrapes, summed over their labels."""
    expected: dict[str, dict[str, float]] = {
        "scheduler": {"warrener_jobs_requested_total": 5},
        "supervisor": {"warrener_jobs": 4, "warrener_agents_alive": 1},
        "agent": {"warrener_job_queue_time_seconds_count": 2, "warrener_agent_slots": 10},
    }
    found = {name: defaultdict[str, float](float) for name in expected}
    for service in warren.services:  # of the two agents, the one that lives is the last
        if service.process.poll() is None:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{service.health_port}/metrics", timeout=60
            ) as page:
                samples = [line for line in page.read().decode().splitlines() if not line.startswith("#")]
            for sample in map(SAMPLE.fullmatch, samples):
                assert sample, f"expected samples, got {samples}"
                found[service.name][sample[1]] += float(sample[2])
    return all(wanted.items() <= found[name].items() for name, wanted in expected.items())


def _ends_are_exported(reader: Receiver | Jaeger) -> bool:
    """The verdicts that ended these two jobs are there, and each verdict has its parent."""
    wanted = {TRACES["third_time"]: "attempt.succeeded.v1", TRACES["mended"]: "attempt.failed.v1"}
    spans = [span for span in reader.spans() if span.trace_id in wanted]
    known = {span.span_id for span in spans}
    verdicts = [span for span in spans if span.operation == "judge"]
    ended = {(span.trace_id, span.attributes.get(names.OUTCOME)) for span in verdicts}
    return ended >= wanted.items() and all(span.parent_id in known for span in verdicts)


def _complete(reader: Receiver | Jaeger) -> list[SpanSeen] | None:
    spans = reader.spans()
    judged = [span for span in spans if span.name == "judge trace.mended"]
    return spans if len({span.trace_id for span in judged}) == 2 else None


def _assert_connected(trace: list[SpanSeen], *, outside: set[str]) -> None:
    """Each span has its parent in the trace, and no time is unexplained."""
    known = Counter(span.span_id for span in trace)
    assert set(known.values()) == {1}, "two spans have the same identifier"
    orphans = [span.name for span in trace if span.parent_id not in known.keys() | outside]
    assert not orphans
    # As lines of text: pytest cuts a list short, and the hole may be in its middle.
    shown = "\n".join(
        f"{span.start:.3f} to {span.end:.3f} {span.name} {span.attributes.get(names.WAIT_CAUSE, '')}"
        for span in sorted(trace, key=lambda span: span.start)
    )
    assert longest_hole(trace) <= MAX_HOLE, shown


def _attempts(trace: list[SpanSeen]) -> list[SpanSeen]:
    return sorted((span for span in trace if span.operation == "attempt"), key=lambda span: span.start)


def _assert_retries(trace: list[SpanSeen]) -> None:
    first, second, third = _attempts(trace)
    assert {span.parent_id for span in (first, second, third)} == {
        span.span_id for span in trace if span.operation == "accept"
    }, "attempts stand beside each other"
    assert [span.failed for span in (first, second, third)] == [True, True, False]
    assert first.events == ("exception",)
    assert first.attributes[names.ERROR_TYPE] == "RuntimeError"
    assert first.instance == first.attributes[names.AGENT_ID]
    waits = [span for span in trace if span.attributes.get(names.WAIT_CAUSE) == "retry"]
    assert sorted(span.attributes[names.ATTEMPT] for span in waits) == [2, 3]


def _assert_survivor(trace: list[SpanSeen]) -> None:
    lost, second = _attempts(trace)
    assert (lost.service, second.service) == ("warrener-supervisor", "warrener-agent")
    assert (lost.failed, second.failed) == (True, False)
    assert lost.attributes[names.ERROR_TYPE] == "lost"
    assert lost.attributes[names.OUTCOME] == "lost"


def _assert_death_and_redrive(trace: list[SpanSeen], spans: list[SpanSeen], dead: UUID) -> None:
    (accepted,) = (span for span in trace if span.operation == "accept")
    (buried,) = (span for span in trace if span.operation == "judge" and span.failed)
    assert buried.attributes[names.JOB_STATE] == "dead"
    assert buried.attributes[names.ERROR_TYPE] == "ValueError"
    (redrive,) = (span for span in spans if span.name == "redrive trace.mended")
    assert redrive.trace_id != accepted.trace_id
    assert redrive.links == ((accepted.trace_id, accepted.span_id),)
    assert redrive.attributes[names.REDRIVEN_JOB_ID] == str(dead)
    again = [span for span in spans if span.trace_id == redrive.trace_id]
    _assert_connected(again, outside={""})
    assert [span.failed for span in _attempts(again)] == [False]
