"""Every generated file: its path in the repository and its text."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import PurePosixPath
from types import MappingProxyType

from tools.reference.asyncapi import asyncapi
from tools.reference.console_api import api_schemas, console_api_page
from tools.reference.events_page import events_page
from tools.reference.golden import golden_events
from tools.reference.metrics_page import metrics_page
from tools.reference.schemas import schemas
from tools.reference.security_page import PAGE, security_page
from tools.reference.state_machine_page import state_machine_page
from tools.reference.topology_page import topology_page
from tools.reference.traces_page import traces_page

from warrener_contracts.messages import encode

WIRE = PurePosixPath("contracts/wire")
RELEASES = WIRE / "released"
"""One folder per release with its schemas and golden examples. Released files never change."""
CONSOLE_RELEASES = PurePosixPath("services/console/released")
"""One file per release with the schemas of the console's JSON."""


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
        PurePosixPath("docs/reference/console-api.md"): console_api_page(),
        PurePosixPath("docs/reference/events.md"): events_page(),
        PurePosixPath("docs/reference/metrics.md"): metrics_page(),
        PurePosixPath("docs/reference/topology.md"): topology_page(),
        PurePosixPath("docs/reference/traces.md"): traces_page(),
        PurePosixPath("docs/journey-of-a-job.md"): state_machine_page(),
        PurePosixPath(PAGE): security_page(),
    }
    return MappingProxyType(files)


def snapshots() -> dict[PurePosixPath, Mapping[PurePosixPath, str]]:
    """The texts of the files of a release: of the wire and of the console, by the place of each."""
    wire, console = RELEASES / wire_version(), CONSOLE_RELEASES / f"{version('warrener')}.json"
    return {
        wire: {
            wire / path.relative_to(WIRE): text
            for path, text in documents().items()
            if path.parent.name in ("schemas", "golden")
        },
        console: {console: _json(api_schemas())},
    }


def wire_version() -> str:
    """The version of the contracts."""
    return version("warrener-contracts")


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
