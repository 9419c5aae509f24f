"""Circuit breakers: their policy and the names of those that a job must pass. Pure."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field

from warrener_contracts.fields import DurationLike, PositiveDuration

BreakerName = Annotated[
    str, Field(pattern=r"^(job|dependency|queue):[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", max_length=132)
]
"""`job:<job type>`, `dependency:<name>`, or `queue:<name>`, which only people open: a pause of the queue."""

DependencyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", max_length=120)]
"""An external service that a handler needs: dotted words."""


_MAX_LISTED = 20


class BreakerState(StrEnum):
    """The state of a breaker, in the words of Nygard, *Release It!*, 2nd edition, chapter 5."""

    CLOSED = "closed"  # jobs pass
    OPEN = "open"  # jobs are held back
    HALF_OPEN = "half_open"  # a few jobs pass as probes


class BreakerPolicy(BaseModel, frozen=True):
    """The thresholds that open a breaker, and the probes that close it."""

    failure_rate: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Share of failed attempts within the window that opens the breaker.",
    )
    window: PositiveDuration = Field(default=timedelta(minutes=1), description="Time that attempts count.")
    minimum_calls: int = Field(
        default=10, ge=1, le=1_000_000, description="Minimum number of attempts within the window."
    )
    open_duration: PositiveDuration = Field(
        default=timedelta(seconds=30),
        description="Time until the first probe; doubled each time a probe fails.",
    )
    max_open_duration: PositiveDuration = timedelta(minutes=10)
    half_open_calls: int = Field(
        default=1, ge=1, le=1000, description="Number of jobs that pass as probes and must succeed."
    )

    if TYPE_CHECKING:  # accepted input: durations as people write them

        def __init__(
            self,
            *,
            failure_rate: float = 0.5,
            window: DurationLike = ...,
            minimum_calls: int = 10,
            open_duration: DurationLike = ...,
            max_open_duration: DurationLike = ...,
            half_open_calls: int = 1,
        ) -> None: ...


DEFAULT_BREAKER_POLICY = BreakerPolicy()
"""The policy of a dependency's breaker unless the job type declares one."""


def job_type_breaker(job_type: str) -> str:
    """The name of a job type's own breaker."""
    return f"job:{job_type}"


def dependency_breaker(dependency: str) -> str:
    """The name of a dependency's breaker."""
    return f"dependency:{dependency}"


def queue_breaker(queue: str) -> str:
    """The name of the breaker that pauses a dispatch queue."""
    return f"queue:{queue}"


def paused_queue(name: str) -> str | None:
    """The queue that a breaker of this name pauses; None for a breaker of a job type or a dependency."""
    kind, _, queue = name.partition(":")
    return queue if kind == "queue" else None


def breakers_for(job_type: str, depends_on: Iterable[str]) -> tuple[str, ...]:
    """The breakers that jobs of this type must pass in any queue: their own, and that of each dependency."""
    return (job_type_breaker(job_type), *map(dependency_breaker, depends_on))


def job_types_of_breakers(dependencies: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Every breaker, with the job types whose jobs pass it, from the dependencies of each job type."""
    found: dict[str, list[str]] = {}
    for job_type, depends_on in sorted(dependencies.items()):
        for name in breakers_for(job_type, depends_on):
            found.setdefault(name, []).append(job_type)
    return found


def describe_unknown_breaker(name: str, known: Iterable[str]) -> str:
    """The sentence for a name that no breaker has; it lists some that exist."""
    names = sorted(known)
    rest = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    there = ", ".join(names[:_MAX_LISTED]) or "none: no agent has announced a job type"
    return f"expected the name of a breaker, got {name!r}; there are {there}{rest}"
