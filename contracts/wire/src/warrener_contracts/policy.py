"""What a job type or a request may choose about retries and time. Pure data; who judges is the supervisor."""

from collections.abc import Mapping, Set
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, cast

from pydantic import BaseModel, Field

from warrener_contracts.backoff import Backoff
from warrener_contracts.circuit_breaker import BreakerPolicy, DependencyName
from warrener_contracts.durations import MAX_DURATION, Duration, PositiveDuration
from warrener_contracts.omit_defaults import is_none, is_unset

__all__ = [
    "Backoff",
    "Duration",
    "ErrorName",
    "Guarantee",
    "JobPolicy",
    "PolicyOverrides",
    "PositiveDuration",
    "find_unknown_field",
]

MAX_SNOOZES = 1000
MAX_PER_MESSAGE = 64
"""Attempts: with more, one agent would be given what several could share, and little would be saved."""
_DEFAULT_MAX_DEATHS = 4

ErrorName = Annotated[str, Field(min_length=1, max_length=200, examples=["requests.*", "ValueError"])]
"""The name of an error's class, in which `*` stands for any run of characters."""

ErrorNames = Annotated[tuple[ErrorName, ...], Field(max_length=100)]


class Guarantee(StrEnum):
    """What a job type promises about its effects (design, section 3)."""

    IDEMPOTENT = "idempotent"  # claimed in the ledger; may be repeated after a crash
    TRANSACTIONAL = "transactional"  # effects, result and follow-ups commit together, once
    EXCLUSIVE = "exclusive"  # starts only when the claim is granted, and says so at once


def _is_default_snoozes(value: object) -> bool:
    return value == MAX_SNOOZES


def _is_one(value: object) -> bool:
    return value == 1


class JobPolicy(BaseModel, frozen=True):
    """How often and how long a job may be tried. The agent declares it; a request may choose parts of it."""

    max_attempts: int = Field(default=5, ge=1, le=1000)
    max_losses: int = Field(
        default=3, ge=0, le=1000, description="Lost agents are not the job's fault: they are counted apart."
    )
    max_deaths: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        exclude_if=is_none,
        description="Quarantined once so many attempts have ended with their executor or their agent; "
        "if not said, 4, or one more than max_losses where that is more.",
    )
    timeout: PositiveDuration = Field(
        default=timedelta(hours=1), description="Of one attempt, from its start."
    )
    heartbeat_timeout: PositiveDuration | None = Field(
        default=None,
        exclude_if=is_unset,
        description="Its handler says that it lives at least so often, or its attempt is timed out.",
    )
    start_timeout: PositiveDuration = Field(
        default=timedelta(hours=1),
        description="A job that is queued for longer is named once, by `attempt.overdue`; it waits on.",
    )
    backoff: Backoff = Backoff()
    max_age: PositiveDuration | None = Field(
        default=None,
        exclude_if=is_unset,
        description="Counted from when it was first due: no further attempt begins later than that.",
    )
    max_snoozes: int = Field(
        default=MAX_SNOOZES,
        ge=0,
        le=1_000_000,
        exclude_if=_is_default_snoozes,
        description="Having snoozed so often, a further snooze is charged as a failure.",
    )
    retry_on: ErrorNames = Field(
        default=(),
        exclude_if=is_unset,
        description="If any: of the errors that a handler raises, only these are tried again.",
    )
    no_retry: ErrorNames = Field(
        default=(),
        exclude_if=is_unset,
        description="These errors (`timeout` and `crash` too) are not tried again; counts before retry_on.",
    )

    per_message: int = Field(
        default=1,
        ge=1,
        le=MAX_PER_MESSAGE,
        exclude_if=_is_one,
        description="So many first attempts that are dispatched at once may share a message, and a slot of "
        "their agent: for short jobs that come in thousands.",
    )

    depends_on: tuple[DependencyName, ...] = Field(
        default=(),
        max_length=20,
        exclude_if=is_unset,
        description="What its handler needs and others run; while the breaker of one is open, jobs wait.",
    )
    breaker: BreakerPolicy | None = Field(
        default=None,
        exclude_if=is_unset,
        description="When the job type's own breaker and those of its dependencies open. None: it has none "
        "of its own, and its dependencies' are as usual.",
    )

    @property
    def quarantine_threshold(self) -> int:
        """With so many deaths of its executors and agents, together, a job is poison."""
        return self.max_deaths or max(_DEFAULT_MAX_DEATHS, self.max_losses + 1)

    def with_initial_wait(self, wait: timedelta) -> "JobPolicy":
        """As it counts from acceptance for a job that is first due `wait` later: its age begins then."""
        if self.max_age is None or wait <= timedelta(0):
            return self
        return self.model_copy(update={"max_age": min(self.max_age + wait, MAX_DURATION)})


class PolicyOverrides(BaseModel, frozen=True):
    """The parts of a JobPolicy that one request chooses for itself."""

    max_attempts: int | None = Field(default=None, ge=1, le=1000)
    timeout: PositiveDuration | None = None
    start_timeout: PositiveDuration | None = None
    backoff: Backoff | None = None
    # Since 1.1. What is not said is not written: the fingerprint of an earlier request stays the same.
    max_losses: int | None = Field(default=None, ge=0, le=1000, exclude_if=is_none)
    max_deaths: int | None = Field(default=None, ge=1, le=1000, exclude_if=is_none)
    max_age: PositiveDuration | None = Field(default=None, exclude_if=is_unset)
    max_snoozes: int | None = Field(default=None, ge=0, le=1_000_000, exclude_if=is_none)
    retry_on: ErrorNames | None = Field(default=None, exclude_if=is_none, description="Empty: all errors.")
    no_retry: ErrorNames | None = Field(default=None, exclude_if=is_none, description="Empty: none.")

    def apply_to(self, policy: JobPolicy) -> JobPolicy:
        """`policy` with the chosen parts replaced."""
        return policy.model_copy(update={name: value for name, value in self if value is not None})


def find_unknown_field(chosen: Mapping[str, Any]) -> str | None:
    """What is wrong where a person has written a part that no policy has; None if nothing is.

    On the wire unknown fields are passed over, for a newer neighbour may know them. A person who writes
    `max_attemps` has made a mistake, and is told.
    """
    backoff = chosen.get("backoff")
    if wrong := _find_unknown("policy", chosen.keys(), PolicyOverrides.model_fields.keys()):
        return wrong
    if not isinstance(backoff, Mapping):
        return None
    written = cast("Mapping[str, Any]", backoff)
    return _find_unknown("policy.backoff", written.keys(), Backoff.model_fields.keys())


def _find_unknown(where: str, written: Set[str], known: Set[str]) -> str | None:
    unknown = sorted(str(part) for part in written - known)
    if not unknown:
        return None
    return f"{where}: expected parts among {', '.join(sorted(known))}, got {', '.join(unknown)}"
