"""Which processes `up` runs. Pure."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from warrener.up.folder import Endpoints


@dataclass(frozen=True, slots=True)
class Member:
    """One process."""

    name: str
    service: str
    command: tuple[str, ...]


def crew(modules: Sequence[str], agents: int, slots: int | None) -> list[Member]:
    """A scheduler, a supervisor, and agents for these modules (none without modules)."""
    slot_options = ("--slots", str(slots)) if slots else ()
    hands = range(1, agents + 1) if modules else ()
    return [
        _member("scheduler", "scheduler"),
        _member("supervisor", "supervisor"),
        *(
            _member(f"agent-{number}" if agents > 1 else "agent", "agent", *modules, *slot_options)
            for number in hands
        ),
    ]


def _member(name: str, service: str, *arguments: str) -> Member:
    return Member(name, service, (sys.executable, "-m", f"warrener_{service}", *arguments))


def environment_of(
    member: Member, inherited: Mapping[str, str], endpoints: Endpoints, health_port: int, log_level: str
) -> dict[str, str]:
    """What a member finds in its environment: what the user set, but for where `up` says that things are."""
    kept = (
        {"WARRENER_LEDGER_URL": endpoints.ledger_url}
        if member.service == "agent"
        else {"WARRENER_STORE_URL": endpoints.store_url}
    )
    return {
        **inherited,
        **kept,
        "WARRENER_BROKER_URL": endpoints.broker_url,
        "WARRENER_NAMESPACE": endpoints.namespace,
        "WARRENER_HEALTH_HOST": "127.0.0.1",
        "WARRENER_HEALTH_PORT": str(health_port),
        "WARRENER_LOG_FORMAT": "json",
        "WARRENER_LOG_LEVEL": log_level,
        "PYTHONUNBUFFERED": "1",
    }
