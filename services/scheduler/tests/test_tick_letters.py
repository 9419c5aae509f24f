"""What a tick says is written without validation: it is, byte for byte, what the contracts write."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID, uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from services.scheduler.tests.test_dispatch_letters import MOMENTS, VALUES, WORDS

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
from warrener_contracts.schedule_rules import ScheduleChoices, OnceRule, OverlapPolicy
from warrener_scheduler.clock.requests import request_letters, request_text, ticked_letter
from warrener_scheduler.dispatch_letters import SOURCE
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
    fate=st.sampled_from(TickStatus),
    due_at=MOMENTS,
    decided_at=MOMENTS,
    reason=st.sampled_from(["", "missed: 2.0 s late", 'because of "\u00fc"\n']),
    job_id=st.none() | st.uuids(),
)


def fired(asked: SchedulePutData, request: str, job_id: UUID) -> TickRow:
    return TickRow(
        schedule=asked.name,
        nominal_at=NOON,
        fate=TickStatus.FIRED,
        due_at=NOON,
        decided_at=NOON,
        job_id=job_id,
        request=request,
    )


# A schedule has many fields: to draw one takes a while where the machine is busy.
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(asked=SCHEDULES, job_id=st.uuids(), moment=MOMENTS)
def test_the_request_of_a_tick_is_what_the_contracts_write(
    asked: SchedulePutData, job_id: UUID, moment: datetime
) -> None:
    tick = fired(asked, request_text(asked, job_id, moment), job_id)
    data = JobRequestedData(
        job_type=asked.job_type, arguments=asked.arguments, queue=asked.queue, policy=asked.policy
    )
    source = f"warrener/schedule/{asked.name}"
    expected = JobRequested(id=str(job_id), source=source, time=moment, subject=str(job_id), data=data)
    assert request_letters(tick, asked) == [build_message(expected)]
    assert request_letters(tick) == [build_message(expected)], "and when it is published again"


def test_the_request_behind_a_cancel_is_two_letters() -> None:
    asked = SchedulePutData(
        name="n", rule=OnceRule(at=NOON), job_type="t", choices=ScheduleChoices(overlap=OverlapPolicy.CANCEL)
    )
    job_id = uuid4()
    for text, letters in (
        (request_text(asked, job_id, NOON), 1),
        (request_text(asked, job_id, NOON, uuid4()), 2),
    ):
        found = request_letters(fired(asked, text, job_id), asked)
        assert len(found) == letters
        assert found[-1].message_id == str(job_id)


def test_without_a_request_there_is_no_letter() -> None:
    asked = SchedulePutData(name="n", rule=OnceRule(at=NOON), job_type="t")
    tick = TickRow(schedule="n", nominal_at=NOON, fate=TickStatus.SKIPPED, due_at=NOON, decided_at=NOON)
    assert request_letters(tick, asked) == []
    assert request_letters(tick) == []


@settings(deadline=None)
@given(tick=TICKS)
def test_what_is_told_of_a_tick_is_what_the_contracts_write(tick: TickRow) -> None:
    event = ScheduleTicked(
        id=f"{tick.schedule}:{tick.nominal_at.isoformat()}:{tick.fate.value}",
        source=SOURCE,
        time=tick.decided_at,
        subject=tick.schedule,
        data=ScheduleTickedData(
            name=tick.schedule,
            nominal_at=tick.nominal_at,
            fate=tick.fate,
            reason=tick.reason,
            job_id=tick.job_id,
            late_seconds=max((tick.decided_at - tick.due_at).total_seconds(), 0.0),
        ),
    )
    letter = ticked_letter(tick)
    assert letter == build_message(event)
    (found,) = decode(letter.body, letter.content_type)
    assert isinstance(found, DecodedEvent)


def test_a_time_of_any_zone_is_told_in_utc() -> None:
    noon = NOON.astimezone(timezone(timedelta(hours=2)))
    asked = SchedulePutData(name="n", rule=OnceRule(at=NOON), job_type="t")
    assert '"time":"2026-01-01T12:00:00Z"' in request_text(asked, uuid4(), noon)
