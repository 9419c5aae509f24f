"""Which processes `up` runs. Pure."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from warrener.up.folder import Endpoints


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process."""

    name: str
    service: str
    command: tuple[str, ...]


def process_specs(modules: Sequence[str], agents: int, slots: int | None) -> list[ProcessSpec]:
    """A scheduler, a supervisor, and agents for these modules (none without modules)."""
    slot_options = ("--slots", str(slots)) if slots else ()
    numbers = range(1, agents + 1) if modules else ()
    return [
        _spec("scheduler", "scheduler"),
        _spec("supervisor", "supervisor"),
        *(
            _spec(f"agent-{number}" if agents > 1 else "agent", "agent", *modules, *slot_options)
            for number in numbers
        ),
    ]


def _spec(name: str, service: str, *arguments: str) -> ProcessSpec:
    return ProcessSpec(name, service, (sys.executable, "-m", f"warrener_{service}", *arguments))


def build_environment(
    spec: ProcessSpec, inherited: Mapping[str, str], endpoints: Endpoints, health_port: int, log_level: str
) -> dict[str, str]:
    """What a member finds in its environment: what the user set, but for where `up` says that things are."""
    storage = (
        {"WARRENER_LEDGER_URL": endpoints.ledger_url}
        if spec.service == "agent"
        else {"WARRENER_STORE_URL": endpoints.store_url}
    )
    return {
        **inherited,
        **storage,
        "WARRENER_BROKER_URL": endpoints.broker_url,
        "WARRENER_NAMESPACE": endpoints.namespace,
        "WARRENER_HEALTH_HOST": "127.0.0.1",
        "WARRENER_HEALTH_PORT": str(health_port),
        "WARRENER_LOG_FORMAT": "json",
        "WARRENER_LOG_LEVEL": log_level,
        "PYTHONUNBUFFERED": "1",
    }
