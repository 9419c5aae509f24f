"""Circuit breakers: what a job type may choose about them, and which breakers stand before its jobs. Pure."""

from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field

from warrener_contracts.durations import PositiveDuration

BreakerName = Annotated[
    str, Field(pattern=r"^(job|dependency):[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", max_length=132)
]
"""`job:<job type>` or `dependency:<name>`."""

DependencyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", max_length=120)]
"""What a handler needs and others run: dotted words."""


_DurationLike = timedelta | float | str


class BreakerState(StrEnum):
    """Whether jobs get through. The words are those of Nygard, *Release It!*, 2nd edition, chapter 5."""

    CLOSED = "closed"  # they do
    OPEN = "open"  # they are held back
    HALF_OPEN = "half_open"  # a few do, as probes


class BreakerPolicy(BaseModel, frozen=True):
    """When a breaker opens, and how it finds out that all is well again."""

    failure_rate: float = Field(
        default=0.5, gt=0, le=1, description="Of the attempts that ended within the window: opens from there."
    )
    window: PositiveDuration = Field(default=timedelta(minutes=1), description="How far back attempts count.")
    at_least: int = Field(
        default=10, ge=1, le=1_000_000, description="Fewer attempts within the window say nothing."
    )
    cooldown: PositiveDuration = Field(
        default=timedelta(seconds=30),
        description="Held back so long before the first probe, and twice as long each time one fails.",
    )
    longest_cooldown: PositiveDuration = timedelta(minutes=10)
    probes: int = Field(
        default=1, ge=1, le=1000, description="So many jobs are let through as probes, and have to succeed."
    )

    if TYPE_CHECKING:  # what may be handed over: durations as people write them

        def __init__(
            self,
            *,
            failure_rate: float = 0.5,
            window: _DurationLike = ...,
            at_least: int = 10,
            cooldown: _DurationLike = ...,
            longest_cooldown: _DurationLike = ...,
            probes: int = 1,
        ) -> None: ...


DEFAULT_BREAKER_POLICY = BreakerPolicy()
"""The policy of a dependency's breaker where the job type chooses none."""


def job_type_breaker(job_type: str) -> str:
    """The name of a job type's own breaker."""
    return f"job:{job_type}"


def dependency_breaker(dependency: str) -> str:
    """The name of a dependency's breaker."""
    return f"dependency:{dependency}"


def breakers_for(job_type: str, depends_on: Iterable[str]) -> tuple[str, ...]:
    """The breakers that jobs of this type have to pass: their own, and that of each dependency."""
    return (job_type_breaker(job_type), *map(dependency_breaker, depends_on))
