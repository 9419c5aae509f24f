"""What is written without validation is, byte for byte, what the contracts write."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from hashlib import blake2b
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.store_rows import tick_row

from warrener_contracts import events
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.messages import build_message
from warrener_contracts.policy import Backoff, Guarantee, JobPolicy, PolicyOverrides
from warrener_contracts.schedule_rules import OnceRule, ScheduleChoices
from warrener_contracts.schedule_words import OverlapPolicy
from warrener_contracts.state_machine import JobState
from warrener_scheduler.decisions.admission import request_digest
from warrener_scheduler.messages import SOURCE, dispatch_message
from warrener_scheduler.tick_messages import TraceParts, request_messages, request_text, ticked_message
from warrener_store.jobs.rows import JobRow
from warrener_store.schedules.rows import TickRow

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
# What has many fields takes a while to draw where the machine is busy.
drawn_slowly = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
SPANS = st.timedeltas(timedelta(microseconds=1), timedelta(days=36_500))
WORDS = st.sampled_from(["a", "flights", "load-2", "_X_9"])
DOTTED = st.lists(WORDS, min_size=1, max_size=3).map(".".join)
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
    job_type=DOTTED,
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


def validated(row: JobRow, now: datetime) -> events.AttemptDispatched:
    job_id, data = str(row.job_id), row.dispatched_data()
    trace: dict[str, Any] = {name: getattr(row, name) for name in ("traceparent", "tracestate", "baggage")}
    name = f"{job_id}:{row.attempt}"
    return events.AttemptDispatched(id=name, source=SOURCE, time=now, subject=job_id, data=data, **trace)


@drawn_slowly
@given(ROWS, MOMENTS)
def test_it_is_the_message_that_the_contracts_write(row: JobRow, now: datetime) -> None:
    event = validated(row, now)
    message = dispatch_message(row, now)
    assert message == build_message(event)
    (read,) = decode(message.body, message.content_type)
    assert isinstance(read, DecodedEvent)
    assert read.event == event


@drawn_slowly
@given(ROWS, MOMENTS)
def test_first_attempts_share_a_message_and_what_is_tried_again_does_not(row: JobRow, now: datetime) -> None:
    """It may have ended its agent: the next time it takes no others with it."""
    row = replace(row, policy=JobPolicy(dispatch_batch=8))
    assert [dispatch_message(replace(row, attempt=n), now).dispatch_batch for n in (1, 2)] == [8, 1]


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
OVERRIDES = st.builds(
    PolicyOverrides,
    timeout=st.none() | st.timedeltas(timedelta(microseconds=1), timedelta(days=30)),
    max_attempts=st.none() | st.integers(1, 100),
    backoff=st.none() | st.sampled_from([Backoff(), Backoff.listed("1s", "1h")]),
)
SCHEDULES = st.builds(
    events.SchedulePutData,
    name=DOTTED,
    rule=st.just(OnceRule(at=NOON)),
    job_type=DOTTED,
    arguments=st.dictionaries(st.sampled_from(["a", '\u00fc"', "\\"]), VALUES, max_size=3),
    queue=st.none() | WORDS,
    policy=st.none() | OVERRIDES,
)
TICKS = st.builds(
    TickRow,
    schedule=DOTTED,
    nominal_at=MOMENTS,
    status=st.sampled_from(events.TickStatus),
    due_at=MOMENTS,
    decided_at=MOMENTS,
    reason=st.sampled_from(["", "missed: 2.0 s late", 'because of "\u00fc"\n']),
    job_id=st.none() | st.uuids(),
)


def once(overlap: OverlapPolicy = OverlapPolicy.ALLOW) -> events.SchedulePutData:
    choices = ScheduleChoices(overlap=overlap)
    return events.SchedulePutData(name="n", rule=OnceRule(at=NOON), job_type="t", choices=choices)


def fired(spec: events.SchedulePutData, request: str, job_id: UUID) -> TickRow:
    return tick_row(spec.name, NOON, events.TickStatus.FIRED, job_id=job_id, request=request)


@drawn_slowly
@given(spec=SCHEDULES, job_id=st.uuids(), moment=MOMENTS)
def test_the_request_of_a_tick_is_what_the_contracts_write(
    spec: events.SchedulePutData, job_id: UUID, moment: datetime
) -> None:
    tick = fired(spec, request_text(spec, job_id, moment), job_id)
    data = events.JobRequestedData(
        job_type=spec.job_type, arguments=spec.arguments, queue=spec.queue, policy=spec.policy
    )
    source = f"warrener/schedule/{spec.name}"
    expected = events.JobRequested(id=str(job_id), source=source, time=moment, subject=str(job_id), data=data)
    assert request_messages(tick, spec) == [build_message(expected)]
    assert request_messages(tick) == [build_message(expected)], "and when it is published again"


def test_the_request_behind_a_cancel_is_two_messages_and_without_a_request_there_is_none() -> None:
    skipped = tick_row("n", NOON, events.TickStatus.SKIPPED)
    assert request_messages(skipped, once()) == request_messages(skipped) == []
    spec = once(OverlapPolicy.CANCEL)
    job_id = uuid4()
    for text, messages in (
        (request_text(spec, job_id, NOON), 1),
        (request_text(spec, job_id, NOON, uuid4()), 2),
    ):
        found = request_messages(fired(spec, text, job_id), spec)
        assert len(found) == messages
        assert found[-1].message_id == str(job_id)


@pytest.mark.parametrize("overlap", [OverlapPolicy.ALLOW, OverlapPolicy.CANCEL])
def test_the_trace_of_a_tick_begins_with_its_request_and_knows_the_event_behind_it(
    overlap: OverlapPolicy,
) -> None:
    spec = once(overlap)
    job_id, upstream = uuid4(), f"00-{'a' * 32}-{'b' * 16}-01"
    own = (f"00-{'c' * 32}-{'d' * 16}-01", "vendor=1")
    tick = fired(spec, request_text(spec, job_id, NOON, event={"traceparent": upstream}), job_id)
    begun: list[tuple[str, TraceParts]] = []

    def begin_trace(begun_tick: TickRow, job_type: str, cause: TraceParts) -> TraceParts:
        assert begun_tick is tick
        begun.append((job_type, cause))
        return own

    for known in (spec, None):
        (message,) = request_messages(tick, known, begin_trace)
        assert message.headers == {"traceparent": own[0], "tracestate": own[1]}
        (found,) = decode(message.body)
        assert isinstance(found, DecodedEvent)
        assert (found.event.traceparent, found.event.tracestate) == own
        (untraced,) = request_messages(tick, known)
        assert b"traceparent" not in untraced.body
    assert begun == [("t", (upstream, None))] * 2


@settings(deadline=None)
@given(tick=TICKS)
def test_the_event_of_a_tick_is_what_the_contracts_write(tick: TickRow) -> None:
    event = events.ScheduleTicked(
        id=f"{tick.schedule}:{tick.nominal_at.isoformat()}:{tick.status.value}",
        source=SOURCE,
        time=tick.decided_at,
        subject=tick.schedule,
        data=events.ScheduleTickedData(
            name=tick.schedule,
            nominal_at=tick.nominal_at,
            status=tick.status,
            reason=tick.reason,
            job_id=tick.job_id,
            late_seconds=max((tick.decided_at - tick.due_at).total_seconds(), 0.0),
        ),
    )
    message = ticked_message(tick)
    assert message == build_message(event)
    (found,) = decode(message.body, message.content_type)
    assert isinstance(found, DecodedEvent)


ERRORS = st.sampled_from([(), ("requests.*",), ("OSError", "Key*")])
PARTS: dict[str, st.SearchStrategy[Any]] = {
    "max_attempts": st.just(2),
    "timeout": st.just(timedelta(minutes=1)),
    "backoff": st.sampled_from(
        [Backoff.fixed("30s"), Backoff.linear("2s", step="5s"), Backoff.listed("5s", "1h")]
    ),
    "max_lost_attempts": st.just(0),
    "max_age": st.just(timedelta(hours=2)),
    "max_snoozes": st.just(0),
    "retry_on": ERRORS,
    "no_retry_on": ERRORS,
}
CHOSEN: dict[str, st.SearchStrategy[Any]] = {
    "arguments": st.dictionaries(TEXTS, VALUES, max_size=3),
    "queue": st.just("later"),
    "idempotency_key": st.text(min_size=1, max_size=20),
    "not_before": st.just(NOON),
    "delay": st.just(timedelta(seconds=90)),
    "deadline": st.just(NOON + timedelta(hours=1)),
    "expires_after": st.just(timedelta(days=1)),
    "parent_id": st.just(UUID(int=7)),
    "reply_to": st.just("me"),
    "policy": st.fixed_dictionaries({}, optional=PARTS).map(PolicyOverrides.model_validate),
}


@drawn_slowly
@given(st.fixed_dictionaries({}, optional=CHOSEN))
def test_it_is_that_of_all_fields_as_json_but_the_reply_address(chosen: dict[str, Any]) -> None:
    data = events.JobRequestedData(job_type="flights.load", **chosen)
    fields = data.model_dump(mode="json")
    del fields["reply_to"]
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    assert request_digest(data) == blake2b(text.encode(), digest_size=16).hexdigest()


def test_it_is_the_one_that_earlier_versions_have_stored() -> None:
    data = events.JobRequestedData(job_type="flights.load", arguments={"b": [1, 2.5, None], "a": "Ø\x7f"})
    assert request_digest(data) == "edec7f9dcac76e0030daadd76d319343"
    terms = events.JobRequestedData(job_type="flights.load", delay=timedelta(seconds=90), idempotency_key="k")
    assert request_digest(terms) == "19eb93fe16340cdf3d6198d1bbd17efb"
