"""Golden examples: each event of the wire, complete, as a user might see it.

They stand in `contracts/wire/golden`; a new event needs one, written by hand.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import Event
from warrener_contracts.registry import BY_TYPE

_FOLDER = Path(__file__).resolve().parents[2] / "contracts" / "wire" / "golden"


@cache
def golden_events() -> Mapping[str, Event[Any]]:
    """Read the example of each event, by its CloudEvents `type`."""
    return MappingProxyType({name: _read(name) for name in BY_TYPE})


def _read(name: str) -> Event[Any]:
    (found,) = decode((_FOLDER / f"{name}.json").read_bytes())
    assert isinstance(found, DecodedEvent), found
    return found.event
