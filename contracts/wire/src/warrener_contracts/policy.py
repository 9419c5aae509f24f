"""What a job type or a request may choose about retries and time. Pure data; who judges is the supervisor."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from warrener_contracts.durations import duration

Duration = Annotated[timedelta, BeforeValidator(duration)]
"""Seconds, ISO 8601 or "2m" on input; ISO 8601 on output."""


class Guarantee(StrEnum):
    """What a job type promises about its effects (design, section 3)."""

    IDEMPOTENT = "idempotent"  # claimed in the ledger; may be repeated after a crash
    TRANSACTIONAL = "transactional"  # effects, result and follow-ups commit together, once
    EXCLUSIVE = "exclusive"  # starts only when the claim is granted, and says so at once


class Backoff(BaseModel):
    """The delay before attempt n+1 is `first * factor**(n-1)`, at most `limit`, spread by `jitter`."""

    model_config = ConfigDict(frozen=True)

    first: Duration = timedelta(seconds=1)
    factor: float = Field(default=2.0, ge=1.0, le=100.0)
    limit: Duration = timedelta(minutes=5)
    jitter: float = Field(default=0.1, ge=0.0, le=1.0)  # a share of the delay, added or taken away at random

    def delay(self, failures: int, chance: float) -> timedelta:
        """The delay after the `failures`-th failure (1, 2, …); `chance` is a random number in [0, 1)."""
        exponent = min(failures - 1, 64)  # 2**64 s is past every limit; beyond it floats overflow
        plain = min(self.first.total_seconds() * self.factor**exponent, self.limit.total_seconds())
        return timedelta(seconds=plain * (1 + self.jitter * (2 * chance - 1)))


class JobPolicy(BaseModel):
    """How often and how long a job may be tried. The agent declares it; a request may override parts of it."""

    model_config = ConfigDict(frozen=True)

    max_attempts: int = Field(default=5, ge=1, le=1000)
    max_losses: int = Field(default=3, ge=0, le=1000)  # lost agents are not the job's fault: counted apart
    timeout: Duration = timedelta(hours=1)  # one attempt, from its start
    start_timeout: Duration = timedelta(hours=1)  # queued without a sign of life
    backoff: Backoff = Backoff()


class PolicyOverrides(BaseModel):
    """The parts of a JobPolicy that one request chooses for itself."""

    model_config = ConfigDict(frozen=True)

    max_attempts: int | None = Field(default=None, ge=1, le=1000)
    timeout: Duration | None = None
    start_timeout: Duration | None = None
    backoff: Backoff | None = None

    def over(self, policy: JobPolicy) -> JobPolicy:
        """`policy` with the chosen parts replaced."""
        return policy.model_copy(update={name: value for name, value in self if value is not None})
