"""The user and the environment with which an agent starts an attempt's process."""

import os
import pwd
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from warrener_agent.context import AttemptFacts
from warrener_agent.definitions.isolation import ProcessSettings

_SECRET_NAMES = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|TOKENS?(?:_|\d|$)"
    r"|(?:API|ACCESS|AUTH|ACCOUNT|SIGNING|MASTER|PRIVATE)_?KEY"
    r"|(?:^|_)(?:PWD|PASS|KEY|AUTH|DSN|PAT)$",
    re.IGNORECASE,
)
TRACE_VARIABLES = ("TRACEPARENT", "TRACESTATE", "BAGGAGE")
"""The variables by which a process gets its trace context and baggage, as OpenTelemetry names them."""
_HARMLESS = frozenset({"PWD", "OLDPWD"})  # folders
_URL_WITH_PASSWORD = re.compile(r"://[^/@:\s]*:[^/@\s]+@")


class UserUnavailable(Exception):
    """The job type's user cannot be used here; the message says why."""


@dataclass(frozen=True, slots=True)
class SystemUser:
    """An entry of the machine's users."""

    name: str
    uid: int
    gid: int
    home: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a login would set."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


def resolve_user(name: str | None) -> SystemUser | None:
    """Return the user called `name`; None for none, or for the agent's own.

    Raises UserUnavailable: to go on as the agent's user would give the handler more rights than declared.
    """
    if name is None:
        return None
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise UserUnavailable(f"expected a user {name} on this machine, found none: create it") from None
    if entry.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise UserUnavailable(
            f"expected to be root to run as {name}, the agent runs as user {os.geteuid()}: start the agent "
            f"as root or as {name}, or leave `user` out"
        )
    return SystemUser(name, entry.pw_uid, entry.pw_gid, entry.pw_dir)


def filter_environment(environment: Mapping[str, str], named: Collection[str]) -> dict[str, str]:
    """Return the variables that are no secrets by name or value, and those in `named`; not the agent's own
    trace context."""
    return {
        name: value
        for name, value in environment.items()
        if name in named or not (name in TRACE_VARIABLES or _looks_secret(name, value))
    }


def process_environment(settings: ProcessSettings, user: SystemUser | None) -> dict[str, str]:
    """Return the variables of the agent that a process with these settings gets, and those of its user."""
    return filter_environment(os.environ, settings.environment) | (user.environment if user else {})


def trace_variables(facts: AttemptFacts) -> dict[str, str]:
    """Return the variables by which a process continues the trace of its attempt."""
    values = (facts.traceparent, facts.tracestate, facts.baggage)
    return {name: value for name, value in zip(TRACE_VARIABLES, values, strict=True) if value}


def _looks_secret(name: str, value: str) -> bool:
    if _URL_WITH_PASSWORD.search(value):
        return True
    return name not in _HARMLESS and _SECRET_NAMES.search(name) is not None
