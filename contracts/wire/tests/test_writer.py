"""Events that are written without validation have the bytes of validated ones."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from tools.reference.golden import golden_events

from warrener_contracts.events import Event
from warrener_contracts.messages import address_of, build_message, encode
from warrener_contracts.writer import EventWriter, moment_json, shared_moment_json

EXAMPLES = golden_events()
NO_TRACE = {"traceparent": None, "tracestate": None, "baggage": None}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
@pytest.mark.parametrize(
    "trace",
    [
        {},
        NO_TRACE,
        {**NO_TRACE, "tracestate": 'vendor="1",\\2'},
        {"tracestate": None},
        {**NO_TRACE, "baggage": 'tenant="acme"'},
    ],
    ids=["as in the example", "no trace", "an odd state alone", "a parent alone", "baggage alone"],
)
def test_every_event_can_be_written(name: str, trace: dict[str, str | None]) -> None:
    event: Event[Any] = EXAMPLES[name].model_copy(update=trace)
    assert event.time is not None
    assert event.subject is not None
    written = EventWriter(type(event), event.source).message(
        event.id,
        address_of(event)[1],
        moment_json(event.time),
        event.subject,
        encode(event.data).decode(),
        traceparent=event.traceparent,
        tracestate=event.tracestate,
        baggage=event.baggage,
    )
    assert written == build_message(event)


def test_text_is_the_event_without_a_trace() -> None:
    event = EXAMPLES["job.requested.v1"].model_copy(update=NO_TRACE)
    assert event.time is not None
    writer = EventWriter(type(event), event.source)
    text = writer.text(event.id, moment_json(event.time), str(event.subject), encode(event.data).decode())
    assert text.encode() == encode(event)


def test_an_id_that_amqp_refuses_becomes_another_message_id() -> None:
    event = EXAMPLES["job.finished.v1"].model_copy(update={**NO_TRACE, "id": "é" * 200})
    assert event.time is not None
    written = EventWriter(type(event), event.source).message(
        event.id,
        address_of(event)[1],
        moment_json(event.time),
        str(event.subject),
        encode(event.data).decode(),
    )
    assert written == build_message(event)


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=2)), timezone(timedelta(hours=-9.5))])
def test_moments_are_written_in_utc(zone: timezone) -> None:
    moment = datetime(2013, 1, 1, 12, 0, 0, 20, tzinfo=UTC).astimezone(zone)
    assert moment_json(moment) == shared_moment_json(moment) == '"2013-01-01T12:00:00.000020Z"'
