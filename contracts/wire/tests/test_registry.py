"""The version before the current one stays readable."""

import json
import subprocess
import sys
from datetime import timedelta
from typing import Any, Literal

import pytest
from pydantic import Field

from warrener_contracts.codec import DecodedEvent, DecodeFailure, decode
from warrener_contracts.events import Event, EventData, JobRequested, JobRequestedData, Reason
from warrener_contracts.registry import REGISTRY, RELEASED, Registry, type_of


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


def test_an_older_version_is_read_as_the_current_one() -> None:
    (found,) = decode(encode_request("v0", task="flights.load", delay_seconds=5), registry=HISTORY)
    data = JobRequestedData(job_type="flights.load", delay=timedelta(seconds=5))
    assert isinstance(found, DecodedEvent)
    assert found.event == JobRequested(id="17", source="airline", data=data)


def test_upcasters_follow_each_other() -> None:
    (found,) = decode(encode_request("v-1", task="flights.load"), registry=HISTORY)
    assert isinstance(found, DecodedEvent)
    assert isinstance(found.event, JobRequested)
    assert found.event.id == "17"


def test_versions_stand_beside_each_other_in_one_batch() -> None:
    body = b"[%s,%s]" % (
        encode_request("v0", task="flights.load"),
        encode_request("v1", job_type="flights.load"),
    )
    found = decode(body, "application/cloudevents-batch+json", registry=HISTORY)
    assert [type(one.event) for one in found if isinstance(one, DecodedEvent)] == [JobRequested, JobRequested]


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
