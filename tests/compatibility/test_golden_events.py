"""What was released stays readable: every golden example of every release, by today's reader."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.messages import build_message, encode
from warrener_contracts.registry import BY_TYPE, REGISTRY

WIRE = Path(__file__).resolve().parents[2] / "contracts" / "wire"
RELEASED = sorted((WIRE / "released").glob("*/golden/*.json"))
CURRENT = sorted((WIRE / "golden").glob("*.json"))


def name_of(file: Path) -> str:
    return f"{file.parents[1].name}/{file.stem}"


@pytest.mark.parametrize("file", [*RELEASED, *CURRENT], ids=name_of)
def test_a_golden_event_is_read_and_can_be_sent_on(file: Path) -> None:
    (found,) = decode(file.read_bytes())
    assert isinstance(found, DecodedEvent), found
    assert type(found.event) not in REGISTRY.upcasters  # it has become the current version
    assert build_message(found.event).body == encode(found.event)
    assert decode(encode(found.event)) == [found]


def test_a_release_has_an_example_for_each_of_its_schemas() -> None:
    schemas = (WIRE / "released").glob("*/schemas/*.json")
    expected = {file.parents[1] / "golden" / file.name for file in schemas}
    assert expected
    assert set(RELEASED) == expected


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
    (more,), (plain,) = decode(json.dumps(event).encode()), decode(file.read_bytes())
    assert isinstance(more, DecodedEvent)
    assert isinstance(plain, DecodedEvent)
    assert more.event == plain.event
