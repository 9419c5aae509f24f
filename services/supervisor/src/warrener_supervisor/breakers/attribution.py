"""Which attempts say something about a breaker. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from warrener_contracts.circuit_breaker import (
    DEFAULT_BREAKER_POLICY,
    BreakerPolicy,
    dependency_breaker,
    job_type_breaker,
)
from warrener_contracts.events import ErrorKind
from warrener_contracts.policy import JobPolicy
from warrener_store.rows import AttemptEnd, AttemptRow

COUNTED_ERRORS = frozenset({ErrorKind.ERROR, ErrorKind.TIMEOUT, ErrorKind.CRASH})
"""Failures of what the handler does. Bad arguments and results are the job's own, lost agents nobody's."""


class AttemptCounts(NamedTuple):
    """How many attempts have ended well, and how many badly."""

    successes: int = 0
    failures: int = 0

    def __add__(self, other: object) -> "AttemptCounts":
        if not isinstance(other, AttemptCounts):
            return NotImplemented
        return AttemptCounts(self.successes + other.successes, self.failures + other.failures)


def count_attempt(attempt: AttemptRow | None) -> AttemptCounts | None:
    """What the end of an attempt says; None where it says nothing."""
    if attempt is None:
        return None
    if attempt.end is AttemptEnd.SUCCEEDED:
        return AttemptCounts(successes=1)
    blamed = attempt.error is not None and attempt.error.kind in COUNTED_ERRORS
    return (
        AttemptCounts(failures=1)
        if blamed and attempt.end in (AttemptEnd.FAILED, AttemptEnd.TIMED_OUT)
        else None
    )


def breakers_counting(job_type: str, policy: JobPolicy) -> Iterable[tuple[str, BreakerPolicy]]:
    """The breakers that count a job's attempts: its dependencies', and its own where its type has one."""
    for dependency in policy.depends_on:
        yield dependency_breaker(dependency), policy.breaker or DEFAULT_BREAKER_POLICY
    if policy.breaker is not None:
        yield job_type_breaker(job_type), policy.breaker
