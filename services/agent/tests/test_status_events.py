"""The event that is written without its model equals the event of the model."""

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from services.agent.tests.stage import dispatched

from warrener_agent.ledger import ChildJobRequest, Completion
from warrener_agent.status_events import EventFactory
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import AttemptSucceeded, AttemptSucceededData
from warrener_contracts.messages import build_message
from warrener_runtime.clock import SystemEntropy
from warrener_runtime.telemetry import TraceContext

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
    written = EventFactory("ada", SystemEntropy()).succeeded(dispatch, context, completion)
    event = AttemptSucceeded(
        id=written.message_id,
        source="warrener/agent/ada",
        subject=str(completion.job_id),
        time=completion.finished_at,
        traceparent=context.traceparent,
        tracestate=context.tracestate,
        data=AttemptSucceededData(
            job_id=completion.job_id,
            attempt=attempt,
            job_type="a.b",
            agent_id="ada",
            started_at=completion.started_at,
            finished_at=completion.finished_at,
            result=completion.result,
            recorded_attempt=completion.attempt,
            child_jobs=len(completion.child_jobs),
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
