"""An event class declares its route; older versions stay readable; derived ids never change: with another id,
a repeat would look new and its job would run twice."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal, cast
from uuid import UUID

import pytest
from pydantic import Field

from warrener_contracts.codec import DecodedEvent, DecodeFailure, decode
from warrener_contracts.events import Event, EventData, JobRequested, JobRequestedData, Reason
from warrener_contracts.events.envelope import DECLARED, SCHEDULER, SUPERVISOR, Route
from warrener_contracts.identity import child_job_id, event_identity, event_job_id, job_id_of
from warrener_contracts.registry import REGISTRY, RELEASED, Registry, type_of
from warrener_contracts.topology import STATUS

ROUTE = Route(STATUS, "{event}.{gate}", (SCHEDULER,), (SUPERVISOR,))


class GateData(EventData, frozen=True):
    """A gate of the airport."""

    gate: str


def declare(*, doc: str = "A gate has closed.", **changed: Any) -> type[Event[GateData]]:
    body = {
        "__doc__": doc,
        "__module__": __name__,
        "__annotations__": {"type": Literal["gate.closed.v1"]},
        "type": "gate.closed.v1",
    }
    metaclass: Any = type(Event)
    made = metaclass("GateClosed", (Event[GateData],), body, frozen=True, route=replace(ROUTE, **changed))
    return cast("type[Event[GateData]]", made)


def test_a_declaration_is_all_that_an_event_needs() -> None:
    kind = declare()
    try:
        (route,) = kind.routes
        assert (route.senders, route.receivers) == ((SCHEDULER,), (SUPERVISOR,))
        assert route.about == "A gate has closed."
        event = kind(id="1", source="airport", type="gate.closed.v1", data=GateData(gate="A4"))
        assert event.routing_key == "gate.closed.A4"
        assert DECLARED["gate.closed.v1"] is kind
        with pytest.raises(TypeError, match=r"expected a type that is not taken, got 'gate\.closed\.v1'"):
            declare()
    finally:
        del DECLARED["gate.closed.v1"]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"exchange": "airport"}, "expected an exchange of the topology, got 'airport'"),
        ({"key": "gate.closed.{flight}"}, "fields of its data, got 'gate.closed.{flight}'"),
        ({"key": ""}, "expected a key"),
        ({"senders": ()}, "expected a sender and a receiver"),
        ({"receivers": ()}, "expected a sender and a receiver"),
        ({"doc": ""}, "expected a docstring"),
    ],
)
def test_an_incomplete_declaration_is_refused_when_the_class_is_made(changed: Any, problem: str) -> None:
    with pytest.raises(TypeError, match="GateClosed: ") as refused:
        declare(**changed)
    assert problem in str(refused.value)
    assert "gate.closed.v1" not in DECLARED


def test_an_event_without_a_route_is_not_of_the_wire() -> None:
    class Draft(Event[GateData], frozen=True):
        type: Literal["gate.drafted.v1"] = "gate.drafted.v1"

    assert Draft.routes == ()
    assert Draft not in RELEASED
    assert "gate.drafted.v1" not in DECLARED


class OldestData(EventData, frozen=True):
    """A request from before there were job types."""

    task: str


class Oldest(Event[OldestData], frozen=True):
    """Two versions behind."""

    type: Literal["job.requested.v-1"] = "job.requested.v-1"


class OldData(EventData, frozen=True):
    """A request of the version before."""

    task: str
    delay_seconds: float = Field(default=0, ge=0)


class Old(Event[OldData], frozen=True):
    """One version behind."""

    type: Literal["job.requested.v0"] = "job.requested.v0"


def _from_oldest(event: Event[Any]) -> Event[Any]:
    return Old(id=event.id, source=event.source, time=event.time, data=OldData(task=event.data.task))


def _from_old(event: Event[Any]) -> Event[Any]:
    data = JobRequestedData(job_type=event.data.task, delay=timedelta(seconds=event.data.delay_seconds))
    return JobRequested(id=event.id, source=event.source, time=event.time, data=data)


HISTORY = Registry((*RELEASED, Oldest, Old), {Oldest: _from_oldest, Old: _from_old})


def encode_request(version: str, **data: Any) -> bytes:
    event = {"specversion": "1.0", "id": "17", "source": "airline", "type": f"job.requested.{version}"}
    return json.dumps({**event, "data": data}).encode()


def read(body: bytes, content_type: str | None = None) -> list[Event[Any]]:
    found = decode(body, content_type, registry=HISTORY)
    return [one.event for one in found if isinstance(one, DecodedEvent)]


def test_an_older_version_is_read_as_the_current_one() -> None:
    data = JobRequestedData(job_type="flights.load", delay=timedelta(seconds=5))
    expected = JobRequested(id="17", source="airline", data=data)
    assert read(encode_request("v0", task="flights.load", delay_seconds=5)) == [expected]


def test_upcasters_follow_each_other_and_versions_stand_beside_each_other_in_one_batch() -> None:
    older, current = {"task": "flights.load"}, {"job_type": "flights.load"}
    versions = [
        encode_request("v-1", **older),
        encode_request("v0", **older),
        encode_request("v1", **current),
    ]
    found = read(b"[%s]" % b",".join(versions), "application/cloudevents-batch+json")
    read_as = [(type(event), event.id, event.data.job_type) for event in found]
    assert read_as == [(JobRequested, "17", "flights.load")] * 3


def test_bad_fields_of_an_older_version_are_explained_as_its_own() -> None:
    (found,) = decode(encode_request("v0", task="flights.load", delay_seconds=-1), registry=HISTORY)
    assert isinstance(found, DecodeFailure)
    assert found.reason is Reason.BAD_FIELDS
    assert "job.requested.v0: data.delay_seconds" in found.detail


def test_what_has_no_place_in_the_current_version_is_unreadable_and_no_exception() -> None:
    for body in (encode_request("v0", task="flights *"), b"x"):
        for content_type in (None, "application/cloudevents-batch+json"):
            sent = body if content_type is None else b"[" + body + b"]"
            (found,) = decode(sent, content_type, registry=HISTORY)
            assert isinstance(found, DecodeFailure)


def test_every_version_that_is_not_the_latest_leads_to_the_latest() -> None:
    for kind in REGISTRY.kinds:
        later = {type_of(other) for other in REGISTRY.kinds if _stem(other) == _stem(kind)}
        newest = max(later, key=lambda name: int(name.rpartition(".v")[2]))
        assert (kind in REGISTRY.upcasters) == (type_of(kind) != newest)


def _stem(kind: type[Event[Any]]) -> str:
    return type_of(kind).rpartition(".")[0]


INCOMPLETE = """
from warrener_contracts import registry

def incomplete():
    return [kind.__name__ for kind in registry.RELEASED if not kind.__pydantic_complete__]

assert len(incomplete()) > 20, "programs that use few events build few"
{first_use}
assert incomplete() == []
"""


@pytest.mark.parametrize(
    "first_use", ["registry.build_models()", "registry.REGISTRY.one", "registry.REGISTRY.many"]
)
def test_all_events_are_built_before_the_first_message_is_read(first_use: str) -> None:
    program = INCOMPLETE.format(first_use=first_use)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


JOB = UUID("019440f7-3a00-7c3e-8f21-5b0a4d9e6c11")


@pytest.mark.parametrize(
    ("source", "event_id", "job_id"),
    [
        ("airline/operations", "order-17", "d07d1ceb-c167-5ed9-bd66-3f728faf4f7a"),
        ("airline/tickets", "order-17", "27a124bc-bad3-5f65-8782-ccb88e18134c"),
        ("airline/operations", "order-18", "d321dcdc-3d09-5711-a38d-94b5116032d8"),
        ("", "", "5b1b2d93-ea77-5ccc-a3a7-dcdba66c9c77"),
        ("aéroport", "№ 17", "a6946d00-2c8a-5fdf-a052-997ccd452ebd"),
    ],
)
def test_an_id_of_any_form_makes_a_job_id(source: str, event_id: str, job_id: str) -> None:
    assert str(job_id_of(source, event_id)) == job_id


@pytest.mark.parametrize("written", [str(JOB), str(JOB).upper(), JOB.hex])
def test_a_uuid_is_the_job_id_for_every_source(written: str) -> None:
    assert job_id_of("airline", written) == job_id_of("harbour", written) == JOB


@pytest.mark.parametrize(
    "alike", [f"{{{JOB}}}", f"{JOB} ", "0_1" + "0" * 29, " 1" + "0" * 30, "+1" + "0" * 30]
)
def test_what_only_looks_like_a_uuid_is_a_name(alike: str) -> None:
    assert job_id_of("airline", alike).version == 5
    assert job_id_of("airline", alike) != job_id_of("harbour", alike)


def test_source_and_id_are_not_run_together() -> None:
    assert job_id_of("a", "bc") != job_id_of("ab", "c")


def test_a_child_job_has_the_same_id_in_every_attempt() -> None:
    assert str(child_job_id(JOB, "index")) == "cd97fec9-fba3-50c8-9c18-16775a0096c8"
    assert child_job_id(JOB, "index") != child_job_id(JOB, "archive")


def test_the_job_of_an_event_is_the_same_in_every_scheduler() -> None:
    event = event_identity("tower", "7")
    assert str(event) == "369122df-869c-54b6-b539-6062ef758576"
    secret = "5" * 64
    assert str(event_job_id("landing", event, secret)) == "ff604b5e-afad-585a-b3b9-d73758ae0ce7"
    assert event_job_id("landing", event, "6" * 64) != event_job_id("landing", event, secret)
    assert event_identity("tow", "er7") != event
    assert event_identity("tower", str(JOB)) != JOB, "what looks like an id is none: two may say the same"
