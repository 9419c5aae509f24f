"""Which attempts say something about a breaker. Pure."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from warrener_contracts.breaking import USUAL, BreakerPolicy, of_dependency, of_job_type
from warrener_contracts.events import AttemptFailed, AttemptSucceeded, AttemptTimedOut, ErrorKind, Event
from warrener_store.rows import JobRow

BLAMED = frozenset({ErrorKind.ERROR, ErrorKind.TIMEOUT, ErrorKind.CRASH})
"""Failures of what the handler does. Bad arguments and results are the job's own, lost agents nobody's."""


class Ended(NamedTuple):
    """How many attempts have ended well, and how many badly."""

    well: int = 0
    badly: int = 0

    def __add__(self, other: object) -> "Ended":
        if not isinstance(other, Ended):
            return NotImplemented
        return Ended(self.well + other.well, self.badly + other.badly)


def ended(event: Event[Any]) -> Ended | None:
    """What `event` says; None where it says nothing."""
    if isinstance(event, AttemptSucceeded):
        return Ended(well=1)
    if isinstance(event, AttemptTimedOut):
        return Ended(badly=1)
    if isinstance(event, AttemptFailed) and not event.data.snoozed and event.data.error.kind in BLAMED:
        return Ended(badly=1)
    return None


def counted_by(row: JobRow) -> Iterable[tuple[str, BreakerPolicy]]:
    """The breakers that count this job's attempts: its dependencies', and its own where its type has one."""
    policy = row.policy
    for dependency in policy.depends_on:
        yield of_dependency(dependency), policy.breaker or USUAL
    if policy.breaker is not None:
        yield of_job_type(row.job_type), policy.breaker
