"""Results and errors are for the requesters of a job: attacks by those who may observe, cancel, repeat,
trigger or publish, on real services."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.acceptance.event_tap import EventTap
from tests.acceptance.warren import Warren, until
from tests.broker_access import publish
from tests.security.attacks import attack
from tests.security.reply_handlers import SECRET

from warrener_client import Client, CommandRefused, JobDied, SyncClient
from warrener_contracts import events, topology
from warrener_contracts.events import Event, SchedulePutData
from warrener_contracts.messages import EVENT_TYPE
from warrener_contracts.state_machine import JobState
from warrener_contracts.triggers import EventRule

_ANY: type[Event[Any]] = Event


@pytest.fixture(scope="module")
def warren(shared_warren: Warren) -> Warren:
    """Services whose job types have a secret, for all tests of this file."""
    shared_warren.start_all("tests.security.reply_handlers")
    return shared_warren


@pytest.fixture(scope="module")
def client(warren: Warren) -> Iterator[SyncClient]:
    """The client of a requester."""
    with SyncClient(warren.broker_url, source="shop") as one:
        yield one


class Thief:
    """Somebody with an address of their own, who sends messages of any content."""

    def __init__(self, warren: Warren) -> None:
        self._url = warren.broker_url
        self.address = topology.reply_address("thief", uuid4().hex)
        self._replies = EventTap(self._url, topology.EVENTS, topology.reply_key(self.address))

    def send(self, exchange: str, key: str, kind: str, data: dict[str, Any], **attributes: str) -> None:
        """Publish one event."""
        event = {"specversion": "1.0", "id": str(uuid4()), "source": "thief", "type": kind}
        publish(
            self._url,
            exchange,
            key,
            json.dumps({**event, **attributes, "data": data}).encode(),
            content_type=EVENT_TYPE,
        )

    def repeat(self, request_id: UUID | str, source: str = "thief", **data: Any) -> None:
        """Request what somebody else has requested."""
        body = {"job_type": "pay", "arguments": {"invoice": 7}, "reply_to": self.address, **data}
        self.send(topology.REQUESTS, "pay", "job.requested.v1", body, id=str(request_id), source=source)

    def cancel(self, job_id: UUID) -> None:
        """Cancel somebody's job."""
        body = {"job_id": str(job_id), "reply_to": self.address}
        self.send(topology.COMMANDS, "job.cancel_requested", "job.cancel_requested.v1", body)

    def answer(self) -> Event[Any]:
        """The first reply; it is the only one."""
        until(self._received, "a reply")
        (reply,) = self._received()
        return reply

    def _received(self) -> list[Event[Any]]:
        return self._replies.received(_ANY)


@pytest.fixture
def thief(warren: Warren) -> Thief:
    return Thief(warren)


def observed(warren: Warren, tap: EventTap, client: SyncClient) -> str:
    """All that an observer has received, once the events of a last job have come."""
    last = client.request("rates.publish")
    last.result(timeout=60)
    until(
        lambda: last.job_id in {one.data.job_id for one in tap.received(events.JobFinished)}, "the last event"
    )
    return "".join(event.model_dump_json() for event in tap.received(_ANY))


@attack(
    "observer",
    "read the results of jobs on `warrener.events`",
    refused="events without results and texts of errors",
)
def test_an_observer_reads_no_result(warren: Warren, client: SyncClient) -> None:
    tap = EventTap(warren.broker_url, topology.EVENTS, "job.#")
    job = client.request("pay", {"invoice": 7})
    assert job.result(timeout=60) == {"invoice": 7, "account": SECRET}, "its requester has it"
    text = observed(warren, tap, client)
    assert str(job.job_id) in text
    assert SECRET not in text
    assert "1.08" in text, "that of a public job type is for everybody"


@attack(
    "observer",
    "read the errors and stacks of jobs on `warrener.events`",
    refused="events without results and texts of errors",
)
def test_an_observer_reads_no_error(warren: Warren, client: SyncClient) -> None:
    tap = EventTap(warren.broker_url, topology.EVENTS, "job.#")
    with pytest.raises(JobDied, match=SECRET):
        client.request("refuse").result(timeout=60)
    text = observed(warren, tap, client)
    kinds = {event.type for event in tap.received(_ANY)}
    assert {"job.retrying.v1", "job.dead.v1", "job.finished.v1"} <= kinds
    assert SECRET not in text
    assert "raise ValueError" not in text
    (dead,) = tap.received(events.JobDead)
    assert (dead.data.reason, dead.data.error and dead.data.error.type) == ("ValueError", "ValueError")


@attack("asker", "make the events of a job type public by a request", refused="requests cannot override it")
def test_a_request_makes_no_job_type_public(warren: Warren, client: SyncClient, thief: Thief) -> None:
    tap, job_id = EventTap(warren.broker_url, topology.EVENTS, "job.#"), uuid4()
    thief.repeat(job_id, policy={"public": True, "max_attempts": 1})
    assert SECRET in thief.answer().model_dump_json(), "the answer to an own request"
    assert SECRET not in observed(warren, tap, client)


@attack("operator", "read the result of a job by a cancel with a reply address", refused="the state alone")
def test_a_cancel_of_an_ended_job_answers_with_its_state(client: SyncClient, thief: Thief) -> None:
    job = client.request("pay", {"invoice": 8})
    job.result(timeout=60)
    thief.cancel(job.job_id)
    reply = thief.answer()
    assert isinstance(reply, events.CommandHandled)
    assert (reply.data.accepted, "one that is succeeded" in reply.data.detail) == (False, True)
    assert SECRET not in reply.model_dump_json()


@attack(
    "operator", "read the error of a dead job by a cancel with a reply address", refused="the state alone"
)
def test_a_cancel_of_a_dead_job_answers_with_its_state(client: SyncClient, thief: Thief) -> None:
    job = client.request("refuse")
    job.outcome(timeout=60)
    thief.cancel(job.job_id)
    reply = thief.answer()
    assert isinstance(reply, events.CommandHandled)
    assert "one that is dead" in reply.data.detail
    assert SECRET not in reply.model_dump_json()


@attack(
    "operator",
    "watch a future job by a cancel of its id in advance",
    refused="replies go to requesters alone",
)
def test_a_cancel_in_advance_watches_nothing(client: SyncClient, thief: Thief) -> None:
    job_id = uuid4()
    thief.cancel(job_id)
    thief.answer()
    assert client.request("pay", {"invoice": 9}, id=job_id).outcome(timeout=60).state is JobState.CANCELLED
    assert isinstance(thief.answer(), events.CommandHandled), "and no end of the job"


@attack("asker", "read a result by repeating the request of another source", refused="conflicting_repeat")
def test_a_repeat_by_another_source_is_no_repeat(client: SyncClient, thief: Thief) -> None:
    job = client.request("pay", {"invoice": 7})
    job.result(timeout=60)
    thief.repeat(job.job_id)
    reply = thief.answer()
    assert isinstance(reply, events.JobRejected)
    assert reply.data.reason is events.Reason.CONFLICTING_REPEAT
    assert SECRET not in reply.model_dump_json()


@attack("asker", "read a result by its id and source, with guessed arguments", refused="conflicting_repeat")
def test_a_repeat_with_other_arguments_is_no_repeat(client: SyncClient, thief: Thief) -> None:
    job = client.request("pay", {"invoice": 10})
    job.result(timeout=60)
    thief.repeat(job.job_id, source="shop", arguments={"invoice": 11})
    reply = thief.answer()
    assert isinstance(reply, events.JobRejected)
    assert SECRET not in reply.model_dump_json()


@attack("asker", "read a result by the text id of another source", refused="text ids are unique for a source")
def test_the_text_id_of_another_source_is_another_job(client: SyncClient, thief: Thief) -> None:
    job = client.request("pay", {"invoice": 7}, id="invoice-7")
    job.result(timeout=60)
    thief.repeat("invoice-7")
    reply = thief.answer()
    assert isinstance(reply, events.JobFinished)
    assert reply.data.job_id != job.job_id
    assert (reply.data.request_id, reply.data.request_source) == ("invoice-7", "thief")


@pytest.mark.parametrize("key", ["reply.#", "reply.*", "#", "*.#", "#.shop"])
@attack("operator", "receive replies by a schedule that waits for `reply.*`", refused="public keys alone")
def test_a_schedule_waits_for_no_reply(client: SyncClient, key: str) -> None:
    rule = EventRule(key=key, event_argument="event")
    schedule = SchedulePutData(name="thief", rule=rule, job_type="rates.publish")
    with pytest.raises(
        CommandRefused, match="of an exchange that WARRENER_SCHEDULER_TRIGGER_EXCHANGES allows"
    ):
        client.put_schedules([schedule], reply_timeout=30)


@pytest.mark.parametrize("exchange", ["shop-2.events", "amq.topic"])
@attack("operator", "receive messages of an exchange by a schedule", refused="the allow-list of exchanges")
def test_a_schedule_waits_for_allowed_exchanges_alone(client: SyncClient, exchange: str) -> None:
    schedule = SchedulePutData(name="thief", rule=EventRule(exchange=exchange), job_type="rates.publish")
    with pytest.raises(CommandRefused, match="WARRENER_SCHEDULER_TRIGGER_EXCHANGES"):
        client.put_schedules([schedule], reply_timeout=30)


@attack("anyone", "send foreign and unreadable replies to an address", refused="the client ignores them")
async def test_a_flood_of_foreign_replies_is_ignored(warren: Warren) -> None:
    async with Client(warren.broker_url) as async_client:
        assert async_client.address.startswith("guest-"), "the address names the user of the broker"
        job = await async_client.request("rates.publish")
        data = await job.outcome()
        foreign = data.model_copy(update={"job_id": uuid4()})
        event = events.JobFinished(id="foreign", source="thief", data=foreign)
        bodies = [event.model_dump_json().encode(), b"{", b"[]", b"\xff"]
        key = topology.reply_key(async_client.address)
        await asyncio.to_thread(
            publish, warren.broker_url, topology.EVENTS, key, *(bodies * 250), content_type=EVENT_TYPE
        )
        again = await async_client.request("pay", {"invoice": 13})
        assert await again.result() == {"invoice": 13, "account": SECRET}
