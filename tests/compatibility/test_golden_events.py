"""What was released stays readable: every golden example of every release, by today's reader."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from warrener_contracts.codec import DecodedEvent, DecodeFailure, decode
from warrener_contracts.events import JobRequested
from warrener_contracts.messages import BATCH_TYPE, build_message, encode
from warrener_contracts.registry import BY_TYPE, REGISTRY

WIRE = Path(__file__).resolve().parents[2] / "contracts" / "wire"
RELEASED = sorted((WIRE / "released").glob("*/golden/*.json"))
CURRENT = sorted((WIRE / "golden").glob("*.json"))


def name_of(file: Path) -> str:
    return f"{file.parents[1].name}/{file.stem}"


def test_there_is_a_release_and_an_example_of_every_event() -> None:
    assert RELEASED
    assert {file.stem for file in CURRENT} == set(BY_TYPE)


@pytest.mark.parametrize("file", [*RELEASED, *CURRENT], ids=name_of)
def test_a_golden_event_is_read_and_can_be_sent_on(file: Path) -> None:
    (found,) = decode(file.read_bytes())
    assert isinstance(found, DecodedEvent), found
    assert type(found.event) not in REGISTRY.upcasters  # it has become the current version
    assert build_message(found.event).body == encode(found.event)
    assert decode(encode(found.event)) == [found]


@pytest.mark.parametrize("file", CURRENT, ids=name_of)
def test_today_writes_what_the_golden_event_has(file: Path) -> None:
    (found,) = decode(file.read_bytes())
    assert isinstance(found, DecodedEvent)
    assert json.loads(encode(found.event)) == json.loads(file.read_bytes())


@pytest.mark.parametrize("file", [file for file in RELEASED if file.stem in BY_TYPE], ids=name_of)
def test_the_reader_of_that_release_reads_what_today_writes(file: Path) -> None:
    """Services are upgraded one by one: what we write fits the schema that the release before us was built
    to."""
    schema = json.loads((file.parents[1] / "schemas" / file.name).read_bytes())
    today = json.loads((WIRE / "golden" / file.name).read_bytes())
    validator: Any = Draft202012Validator(schema)
    validator.validate(today)


@pytest.mark.parametrize("file", [*RELEASED, *CURRENT], ids=name_of)
def test_a_newer_neighbour_may_send_more(file: Path) -> None:
    event = json.loads(file.read_bytes())
    event["partition"], event["data"]["not_yet_invented"] = 7, {"a": [1]}
    assert _only(json.dumps(event).encode()) == _only(file.read_bytes())


def test_a_version_of_the_future_is_parked_and_the_elements_beside_it_are_read() -> None:
    event = json.loads((WIRE / "golden" / "job.requested.v1.json").read_bytes())
    future = {**event, "type": "job.requested.v2"}
    found = decode(json.dumps([event, future, event]).encode(), BATCH_TYPE)
    assert [type(one) for one in found] == [DecodedEvent, DecodeFailure, DecodedEvent]
    assert isinstance(_only(json.dumps(event).encode()), JobRequested)


def _only(body: bytes) -> object:
    (found,) = decode(body)
    assert isinstance(found, DecodedEvent)
    return found.event
