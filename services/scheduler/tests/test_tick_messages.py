"""The messages of a tick are written without validation: byte for byte as the contracts write them."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from services.scheduler.tests.test_messages import MOMENTS, VALUES, WORDS
from tests.store_rows import tick_row

from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import (
    JobRequested,
    JobRequestedData,
    SchedulePutData,
    ScheduleTicked,
    ScheduleTickedData,
    TickStatus,
)
from warrener_contracts.messages import build_message
from warrener_contracts.policy import Backoff, PolicyOverrides
from warrener_contracts.schedule_rules import OnceRule, ScheduleChoices
from warrener_contracts.schedule_words import OverlapPolicy
from warrener_scheduler.messages import SOURCE
from warrener_scheduler.tick_messages import TraceParts, request_messages, request_text, ticked_message
from warrener_store.schedules.rows import TickRow

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NAMES = st.lists(WORDS, min_size=1, max_size=3).map(".".join)
POLICIES = st.builds(
    PolicyOverrides,
    timeout=st.none() | st.timedeltas(timedelta(microseconds=1), timedelta(days=30)),
    max_attempts=st.none() | st.integers(1, 100),
    backoff=st.none() | st.sampled_from([Backoff(), Backoff.listed("1s", "1h")]),
)
SCHEDULES = st.builds(
    SchedulePutData,
    name=NAMES,
    rule=st.just(OnceRule(at=NOON)),
    job_type=NAMES,
    arguments=st.dictionaries(st.sampled_from(["a", '\u00fc"', "\\"]), VALUES, max_size=3),
    queue=st.none() | WORDS,
    policy=st.none() | POLICIES,
)
TICKS = st.builds(
    TickRow,
    schedule=NAMES,
    nominal_at=MOMENTS,
    status=st.sampled_from(TickStatus),
    due_at=MOMENTS,
    decided_at=MOMENTS,
    reason=st.sampled_from(["", "missed: 2.0 s late", 'because of "\u00fc"\n']),
    job_id=st.none() | st.uuids(),
)


def fired(spec: SchedulePutData, request: str, job_id: UUID) -> TickRow:
    return tick_row(spec.name, NOON, TickStatus.FIRED, job_id=job_id, request=request)


# A schedule has many fields: to draw one takes a while where the machine is busy.
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(spec=SCHEDULES, job_id=st.uuids(), moment=MOMENTS)
def test_the_request_of_a_tick_is_what_the_contracts_write(
    spec: SchedulePutData, job_id: UUID, moment: datetime
) -> None:
    tick = fired(spec, request_text(spec, job_id, moment), job_id)
    data = JobRequestedData(
        job_type=spec.job_type, arguments=spec.arguments, queue=spec.queue, policy=spec.policy
    )
    source = f"warrener/schedule/{spec.name}"
    expected = JobRequested(id=str(job_id), source=source, time=moment, subject=str(job_id), data=data)
    assert request_messages(tick, spec) == [build_message(expected)]
    assert request_messages(tick) == [build_message(expected)], "and when it is published again"


def test_the_request_behind_a_cancel_is_two_messages() -> None:
    spec = SchedulePutData(
        name="n", rule=OnceRule(at=NOON), job_type="t", choices=ScheduleChoices(overlap=OverlapPolicy.CANCEL)
    )
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
    spec = SchedulePutData(
        name="n", rule=OnceRule(at=NOON), job_type="t", choices=ScheduleChoices(overlap=overlap)
    )
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


def test_without_a_request_there_is_no_message() -> None:
    spec = SchedulePutData(name="n", rule=OnceRule(at=NOON), job_type="t")
    tick = tick_row("n", NOON, TickStatus.SKIPPED)
    assert request_messages(tick, spec) == []
    assert request_messages(tick) == []


@settings(deadline=None)
@given(tick=TICKS)
def test_the_event_of_a_tick_is_what_the_contracts_write(tick: TickRow) -> None:
    event = ScheduleTicked(
        id=f"{tick.schedule}:{tick.nominal_at.isoformat()}:{tick.status.value}",
        source=SOURCE,
        time=tick.decided_at,
        subject=tick.schedule,
        data=ScheduleTickedData(
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


def test_a_time_of_any_zone_is_written_in_utc() -> None:
    noon = NOON.astimezone(timezone(timedelta(hours=2)))
    spec = SchedulePutData(name="n", rule=OnceRule(at=NOON), job_type="t")
    assert '"time":"2026-01-01T12:00:00Z"' in request_text(spec, uuid4(), noon)
