"""A dispatch is written without validation: byte for byte as the contracts write it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import AttemptDispatched
from warrener_contracts.messages import build_message
from warrener_contracts.policy import Backoff, Guarantee, JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_scheduler.messages import SOURCE, dispatch_message
from warrener_store.jobs.rows import JobRow

TEXTS = st.text(max_size=20).map(lambda text: text.replace("\x00", ""))  # which no request may hold
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
MOMENTS = st.datetimes(
    datetime(1970, 1, 2),  # noqa: DTZ001 - the zones are drawn beside it
    datetime(8999, 12, 30),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=2)), timezone(timedelta(hours=-9.5))]),
)
SPANS = st.timedeltas(timedelta(microseconds=1), timedelta(days=36_500))
WORDS = st.sampled_from(["a", "flights", "load-2", "_X_9"])
BACKOFFS = st.sampled_from([Backoff(), Backoff.linear("2s", step="5s"), Backoff.listed("1s", "1h")])
NAMES = st.lists(st.sampled_from(["requests.*", "OSError"]), max_size=2).map(tuple)
POLICIES = st.builds(
    JobPolicy,
    timeout=SPANS,
    max_attempts=st.integers(1, 1000),
    backoff=BACKOFFS,
    max_age=st.none() | SPANS,
    max_snoozes=st.integers(0, 1_000_000),
    retry_on=NAMES,
    no_retry_on=NAMES,
)
ROWS = st.builds(
    JobRow,
    job_id=st.uuids(),
    job_type=st.lists(WORDS, min_size=1, max_size=3).map(".".join),
    queue=WORDS,
    arguments=st.dictionaries(TEXTS, VALUES, max_size=3),
    guarantee=st.sampled_from(Guarantee),
    policy=POLICIES,
    source=st.just("test"),
    traceparent=st.none() | st.just(f"00-{'a' * 32}-{'b' * 16}-01"),
    tracestate=st.none() | st.sampled_from(["vendor=1", 'a="1\\2",b=/~']),
    baggage=st.none() | st.just("tenant=acme"),
    requested_at=MOMENTS,
    accepted_at=MOMENTS,
    deadline_at=st.none() | MOMENTS,
    state=st.sampled_from([JobState.QUEUED, JobState.RETRYING]),
    attempt=st.integers(1, 2**31 - 1),
    due_at=st.none() | MOMENTS,
    updated_at=MOMENTS,
)


def validated(row: JobRow, now: datetime) -> AttemptDispatched:
    """The event as the contracts make and validate it."""
    job_id = str(row.job_id)
    trace: dict[str, Any] = {"traceparent": row.traceparent, "tracestate": row.tracestate}
    trace["baggage"] = row.baggage
    data = row.dispatched_data()
    return AttemptDispatched(
        id=f"{job_id}:{row.attempt}", source=SOURCE, time=now, subject=job_id, data=data, **trace
    )


# A row has many fields: to draw one takes a while where the machine is busy.
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(ROWS, MOMENTS)
def test_it_is_the_message_that_the_contracts_write(row: JobRow, now: datetime) -> None:
    event = validated(row, now)
    message = dispatch_message(row, now)
    assert message == build_message(event)
    (read,) = decode(message.body, message.content_type)
    assert isinstance(read, DecodedEvent)
    assert read.event == event


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(ROWS, MOMENTS)
def test_first_attempts_share_a_message_and_what_is_tried_again_does_not(row: JobRow, now: datetime) -> None:
    """It may have ended its agent: the next time it takes no others with it."""
    row = replace(row, policy=JobPolicy(dispatch_batch=8))
    assert [dispatch_message(replace(row, attempt=n), now).dispatch_batch for n in (1, 2)] == [8, 1]
