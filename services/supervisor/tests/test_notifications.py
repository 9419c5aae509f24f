"""What is written without validation is what validation would have written."""

from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from services.supervisor.tests.event_factory import make

from warrener_contracts.state_machine import JobState
from warrener_runtime.telemetry import TraceContext
from warrener_store.jobs.rows import JobRow
from warrener_supervisor.notifications import finished_message, success_message

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.integers(0, 221_000_000_000_000_000).map(lambda us: EPOCH + timedelta(microseconds=us))
RESULTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
WORDS = st.sampled_from(["a", "flights.load", "A-1._.x_2"])
PARENTS = st.sampled_from([None, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"])
STATES = st.sampled_from([None, "vendor=1", 'a="b\\",c=2'])
TRACES = st.builds(TraceContext, PARENTS, STATES)
ROWS = st.builds(
    make,
    st.just(JobState.SUCCEEDED),
    job_id=st.uuids(),
    parent_id=st.none() | st.uuids(),
    job_type=WORDS,
    result=RESULTS,
    attempt=st.integers(1, 2**31 - 1),
    requested_at=MOMENTS,
    finished_at=MOMENTS,
)


@given(row=ROWS, trace=TRACES)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a loaded machine proves nothing
def test_a_success_is_written_as_its_model_would_write_it(row: JobRow, trace: TraceContext) -> None:
    assert success_message(row, trace) == finished_message(row, trace)
