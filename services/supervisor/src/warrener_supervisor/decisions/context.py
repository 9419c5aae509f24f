"""DOC"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from warrener_contracts.events import Reason
from warrener_contracts.topology import DELAY_LEVELS
from warrener_store.breaker_gate import NO_OPEN_BREAKERS, OpenBreakers
from warrener_store.rows import AttemptRow, DeadLetter, JobRow

_ANSWER = timedelta(seconds=2)


_NONE: Mapping[UUID, int] = MappingProxyType({})


_NOBODY: Mapping[str, datetime] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Timings:
    """How long to believe in what is not heard of."""

    lease: timedelta = timedelta(seconds=8)  # an agent that says nothing for so long is gone
    reconnect: timedelta = timedelta(seconds=10)  # after a break, agents may take so long to be heard again
    no_consumer_timeout: timedelta = timedelta(
        seconds=15
    )  # a queue with messages may have no consumer for so long
    ladder_grace: timedelta = timedelta(seconds=15)  # so long after its time, a wake-up is lost
    timeout_grace: timedelta = timedelta(
        seconds=10
    )  # an agent stops its attempts itself, and is given time for it
    max_queue_delay: timedelta = DELAY_LEVELS[-1].delay  # what waits longer waits in the store alone
    min_queue_delay: timedelta = DELAY_LEVELS[0].delay  # no rung is shorter: a shorter delay would spin
    compare: timedelta = timedelta(seconds=20)  # an agent's whole list is compared with the store
    claim: timedelta = timedelta(seconds=10)  # the watchdog's word is repeated after it, if it was not heard
    settled: timedelta = timedelta(seconds=10)  # a dispatch is in its queue by then, or lost
    unpublished_grace: timedelta = timedelta(seconds=5)  # who has just touched a job may be publishing it
    renotify_interval: timedelta = timedelta(
        minutes=1
    )  # a job that waits too long is named again, if it was not heard

    @property
    def answer(self) -> timedelta:
        """Time an agent has to answer before it counts as lost; it is asked so long before its lease ends."""
        return min(_ANSWER, self.lease / 4)


class JudgeContext(NamedTuple):
    """When it is judged, by which rules, the chance in [0, 1) that spreads a retry, what breakers hold back,
    how often jobs have snoozed where the row alone does not say (`snoozing`), and when agents were last seen
    that are said to be lost."""

    now: datetime
    timings: Timings
    chance: float = 0.5
    holding: OpenBreakers = NO_OPEN_BREAKERS
    snoozes: Mapping[UUID, int] = _NONE
    seen: Mapping[str, datetime] = _NOBODY


class Notification(StrEnum):
    """Something to be said about a job, rendered from its row once that is safe (`tidings`)."""

    DISPATCH = "dispatch"  # the current attempt, to the agents
    RETRYING = "retrying"  # to the world: another attempt will be made
    FINISHED = "finished"  # to the world and to those who watch the job
    DEAD = "dead"  # to the world
    CANCEL = "cancel"  # to the agents: stop what you run of it


NO_NOTIFICATIONS: frozenset[Notification] = frozenset()


class JobTransition(NamedTuple):
    """The job has changed: what it is now, and what goes with it. The version of `row` counts for nothing:
    several judgements may be one save, and `fold` numbers the saves."""

    row: JobRow
    verdict: str
    attempt: AttemptRow | None = None
    dead_letter: DeadLetter | None = None
    notifications: frozenset[Notification] = NO_NOTIFICATIONS


@dataclass(frozen=True, slots=True)
class NoChange:
    """Nothing changes, for this reason.

    `notifications` repeats what an earlier delivery of the same event may have saved and not said; `answer`
    is an asker who came when all was over.
    """

    why: str
    notifications: frozenset[Notification] = NO_NOTIFICATIONS
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class ParkDecision:
    """It cannot be: kept for a person to look at."""

    reason: Reason
    why: str


JudgeDecision = JobTransition | NoChange | ParkDecision
