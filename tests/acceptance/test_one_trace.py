"""A job is one trace: from the asker through scheduler, agent and supervisor, retries included."""

from collections import Counter

from tests.acceptance.otlp_receiver import Receiver, SpanSeen, receiver
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient

HANDLERS = """
from warrener_agent import Agent, JobContext

agent = Agent()

@agent.job("trace.second_time", max_attempts=3, backoff={"first": 1, "jitter": 0})
async def second_time(job: JobContext) -> int:
    if job.attempt == 1:
        raise RuntimeError("not yet")
    return job.attempt
"""
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_job_with_a_retry_is_one_connected_trace(warren: Warren) -> None:
    (warren.folder / "second_time.py").write_text(HANDLERS)
    with receiver() as jaeger:
        warren.environment = {
            "WARRENER_OTLP_ENDPOINT": jaeger.endpoint,
            "WARRENER_OTLP_PROTOCOL": "http/protobuf",
        }
        warren.start_all("second_time")
        with SyncClient(warren.broker_url) as client:
            job = client.request("trace.second_time", {}, traceparent=PARENT)
            assert job.result(timeout=60) == 2
        warren.end()  # what was not exported yet is exported at the end

        trace = until(lambda: _complete(jaeger), "the spans of two attempts and two judgements", within=20)

    _, trace_id, span_id, _ = PARENT.split("-")
    assert {span.trace_id for span in trace} == {trace_id}
    known = {span.span_id for span in trace} | {span_id}
    assert all(span.parent_id in known for span in trace), "a span hangs loose"
    assert {span.service for span in trace} == {"warrener-scheduler", "warrener-agent", "warrener-supervisor"}
    first, second = (span for span in trace if span.name.startswith("attempt"))
    assert first.parent_id == second.parent_id, "attempts stand beside each other"
    assert (first.failed, second.failed) == (True, False)


def _complete(jaeger: Receiver) -> list[SpanSeen] | None:
    mine = [span for span in jaeger.spans() if "second_time" in span.name]
    kinds = Counter(span.name.split()[0] for span in mine)
    return mine if kinds["attempt"] == 2 and kinds["judge"] >= 2 else None
