"""Which messages share one, what a returned message needs, and which messages may be deferred."""

import pytest
from tools.reference.golden import golden_events

from warrener_contracts import outbox
from warrener_contracts.messages import Message, build_message, delayed_by
from warrener_contracts.topology import (
    DELAY_LEVELS,
    EVENTS,
    REQUESTS_QUEUE,
    SCHEDULER_COMMANDS,
    STATUS_QUEUE,
    SUPERVISOR_COMMANDS,
    Queue,
    dispatch_queue,
)

MESSAGES = {name: build_message(event) for name, event in golden_events().items()}
DISPATCH = MESSAGES["attempt.dispatched.v1"]


def test_a_message_is_published_once_and_those_of_one_address_together() -> None:
    request = MESSAGES["job.requested.v1"]
    other = request._replace(message_id="other")
    combined = outbox.combine([request, other, DISPATCH, request])
    assert [message.type for message in combined] == ["batch", DISPATCH.type]


@pytest.mark.parametrize(
    ("name", "queue"),
    [
        ("attempt.dispatched.v1", dispatch_queue("loading")),
        ("job.requested.v1", REQUESTS_QUEUE),
        ("schedule.put.v1", SCHEDULER_COMMANDS),
        ("job.redrive_requested.v1", SCHEDULER_COMMANDS),
        ("job.cancel_requested.v1", SUPERVISOR_COMMANDS),
        ("parked.drop_requested.v1", SUPERVISOR_COMMANDS),
        ("attempt.succeeded.v1", STATUS_QUEUE),
    ],
)
def test_a_returned_message_needs_its_exchange_and_its_queue(name: str, queue: Queue) -> None:
    message = MESSAGES[name]
    needed = outbox.missing_topology(message)
    assert needed is not None
    assert queue in needed.queues
    exchanges = {exchange.name for exchange in needed.exchanges}
    assert {message.exchange, *(binding.exchange for binding in queue.bindings)} <= exchanges


def test_events_to_subscribers_need_their_exchange_and_no_queue() -> None:
    needed = outbox.missing_topology(MESSAGES["job.finished.v1"])
    assert needed is not None
    assert EVENTS in {exchange.name for exchange in needed.exchanges}
    assert not [queue for queue in needed.queues if EVENTS in {one.exchange for one in queue.bindings}]


def test_the_exchange_of_others_is_not_declared() -> None:
    assert outbox.missing_topology(MESSAGES["job.finished.v1"]._replace(exchange="orders")) is None


def test_dispatches_and_outbound_events_may_be_deferred() -> None:
    delayed = delayed_by(DISPATCH, DELAY_LEVELS[0])
    deferred: list[Message] = [delayed, *filter(outbox.may_defer, MESSAGES.values())]
    assert {message.exchange for message in deferred} == {
        "warrener.delay",
        "warrener.dispatch",
        "warrener.events",
    }
    event = golden_events()["attempt.dispatched.v1"]
    attempt = (event.data.job_id, event.data.attempt)
    assert outbox.deferred_attempts(deferred) == [attempt, attempt]
