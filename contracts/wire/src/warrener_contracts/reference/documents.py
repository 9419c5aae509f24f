"""Every generated file of the wire: its path in the repository and its text."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import PurePosixPath
from types import MappingProxyType

from warrener_contracts.messages import encode
from warrener_contracts.reference.asyncapi import asyncapi
from warrener_contracts.reference.events_page import events_page
from warrener_contracts.reference.schemas import schemas
from warrener_contracts.reference.state_machine_page import state_machine_page
from warrener_contracts.reference.topology_page import topology_page
from warrener_contracts.registry import golden_events

WIRE = PurePosixPath("contracts/wire")
RELEASES = WIRE / "released"
"""One folder per release with its schemas and golden examples. Released files never change."""


@cache
def documents() -> Mapping[PurePosixPath, str]:
    """The text of each file by its path. The same code gives the same bytes: they are made once."""
    files = {
        **{WIRE / "schemas" / f"{name}.json": _json(schema) for name, schema in schemas().items()},
        **{
            WIRE / "golden" / f"{name}.json": _json(json.loads(encode(e)))
            for name, e in golden_events().items()
        },
        PurePosixPath("docs/reference/asyncapi.json"): _json(asyncapi(wire_version())),
        PurePosixPath("docs/reference/events.md"): events_page(),
        PurePosixPath("docs/reference/topology.md"): topology_page(),
        PurePosixPath("docs/journey-of-a-job.md"): state_machine_page(),
    }
    return MappingProxyType(files)


def snapshot() -> dict[PurePosixPath, str]:
    """The text of each file of a release, by its path in the folder of the release."""
    folders = ("schemas", "golden")
    return {path.relative_to(WIRE): text for path, text in documents().items() if path.parent.name in folders}


def wire_version() -> str:
    """The version of the contracts."""
    return version("warrener-contracts")


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
