"""What a job type or a request may choose about retries and time. Pure data; who judges is the supervisor."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from warrener_contracts.durations import LONGEST, duration

_Written = Annotated[str, Field(examples=["90s", "2m", "1h30m", "PT2M"])] | Annotated[float, Field(ge=0)]

Duration = Annotated[timedelta, BeforeValidator(duration, json_schema_input_type=_Written)]
"""Seconds, ISO 8601 or "2m" on input; ISO 8601 on output."""

Span = Annotated[Duration, Field(gt=timedelta(0))]
"""A Duration that is not nothing: a job with no time at all could never succeed."""


class Guarantee(StrEnum):
    """What a job type promises about its effects (design, section 3)."""

    IDEMPOTENT = "idempotent"  # claimed in the ledger; may be repeated after a crash
    TRANSACTIONAL = "transactional"  # effects, result and follow-ups commit together, once
    EXCLUSIVE = "exclusive"  # starts only when the claim is granted, and says so at once


class Backoff(BaseModel, frozen=True):
    """The delay before attempt n+1 is `first * factor**(n-1)`, at most `limit`, spread by `jitter`."""

    first: Duration = timedelta(seconds=1)
    factor: float = Field(default=2.0, ge=1.0, le=100.0)
    limit: Duration = timedelta(minutes=5)
    jitter: float = Field(
        default=0.1, ge=0.0, le=1.0, description="A share of the delay, added or taken away at random."
    )

    def delay(self, failures: int, chance: float) -> timedelta:
        """The delay after the `failures`-th failure (1, 2, …); `chance` is a random number in [0, 1).

        Never negative, never longer than the longest duration there is.
        """
        exponent = min(max(failures - 1, 0), 64)  # far past every limit; much beyond it floats overflow
        plain = min(self.first.total_seconds() * self.factor**exponent, self.limit.total_seconds())
        return min(timedelta(seconds=plain * (1 + self.jitter * (2 * chance - 1))), LONGEST)


class JobPolicy(BaseModel, frozen=True):
    """How often and how long a job may be tried. The agent declares it; a request may choose parts of it."""

    max_attempts: int = Field(default=5, ge=1, le=1000)
    max_losses: int = Field(
        default=3, ge=0, le=1000, description="Lost agents are not the job's fault: they are counted apart."
    )
    timeout: Span = Field(default=timedelta(hours=1), description="Of one attempt, from its start.")
    start_timeout: Span = Field(
        default=timedelta(hours=1), description="Queued that long without a sign of life: dispatched again."
    )
    backoff: Backoff = Backoff()


class PolicyOverrides(BaseModel, frozen=True):
    """The parts of a JobPolicy that one request chooses for itself."""

    max_attempts: int | None = Field(default=None, ge=1, le=1000)
    timeout: Span | None = None
    start_timeout: Span | None = None
    backoff: Backoff | None = None

    def over(self, policy: JobPolicy) -> JobPolicy:
        """`policy` with the chosen parts replaced."""
        return policy.model_copy(update={name: value for name, value in self if value is not None})
