"""The judge's interface: a JudgeContext goes in, a JudgeDecision comes out.

The context carries the time and the chance, so that the judge needs no clock and no randomness.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from warrener_contracts.events import Reason
from warrener_contracts.topology import DELAY_LEVELS
from warrener_store.breakers.gate import NO_OPEN_BREAKERS, OpenBreakers
from warrener_store.dead_letters.rows import DeadLetter
from warrener_store.jobs.rows import AttemptRow, JobRow
from warrener_store.jobs.views import FailedAttempt

_ANSWER = timedelta(seconds=2)
_NONE: Mapping[UUID, int] = MappingProxyType({})
_NOBODY: Mapping[str, datetime] = MappingProxyType({})
_NO_FAILURES: Mapping[UUID, Sequence[FailedAttempt]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Timings:
    """Periods after which the supervisor draws a conclusion."""

    lease: timedelta = timedelta(seconds=8)  # an agent that is silent for this long is lost
    look: timedelta = timedelta(seconds=0.5)  # time between two looks of the watchdog
    reconnect: timedelta = timedelta(seconds=10)  # for heartbeats to come again after a broken connection
    no_consumer_timeout: timedelta = timedelta(seconds=15)  # that messages may wait without a consumer
    delay_grace: timedelta = timedelta(seconds=15)  # a wake-up that is later than this is lost
    timeout_grace: timedelta = timedelta(seconds=10)  # for an agent to stop an attempt itself
    max_queue_delay: timedelta = DELAY_LEVELS[-1].delay  # a longer delay waits in the store alone
    min_queue_delay: timedelta = DELAY_LEVELS[0].delay  # a shorter delay would spin
    compare: timedelta = timedelta(seconds=20)  # between two comparisons of an agent's whole list
    claim: timedelta = timedelta(seconds=10)  # after it the watchdog repeats an event that nobody judged
    settled: timedelta = timedelta(seconds=10)  # after it a dispatch is in its queue, or lost
    unpublished_grace: timedelta = timedelta(seconds=5)  # another one may publish what has just changed
    renotify_interval: timedelta = timedelta(minutes=1)  # between two reports of a job that waits too long

    @property
    def answer(self) -> timedelta:
        """Time an agent has to answer a request for a heartbeat."""
        return min(_ANSWER, self.lease / 4)

    @property
    def request_after(self) -> timedelta:
        """Silence after which a heartbeat is requested: the time to answer ends before the lease."""
        return self.lease - self.answer - min(self.look, self.answer)


class JudgeContext(NamedTuple):
    """The circumstances of a decision.

    `chance` in [0, 1) spreads retries. `holding` has the open breakers. `snoozes` counts a job's snoozes
    where its row alone does not show them. `seen` says when agents that are reported lost last sent a
    heartbeat. `announced` says when job types were last announced that agents report as unknown. `failed` has
    the last failed attempts of jobs whose policies choose by them.
    """

    now: datetime
    timings: Timings
    chance: float = 0.5
    holding: OpenBreakers = NO_OPEN_BREAKERS
    snoozes: Mapping[UUID, int] = _NONE
    seen: Mapping[str, datetime] = _NOBODY
    announced: Mapping[str, datetime] = _NOBODY
    failed: Mapping[UUID, Sequence[FailedAttempt]] = _NO_FAILURES


class Notification(StrEnum):
    """A message to publish about a job, rendered from its row once that is saved (`notifications`)."""

    DISPATCH = "dispatch"  # the current attempt, to the agents
    RETRYING = "retrying"  # to subscribers: another attempt follows
    FINISHED = "finished"  # to subscribers and to the job's watchers
    DEAD = "dead"  # to subscribers
    CANCEL = "cancel"  # to the agents: stop the job's attempts


NO_NOTIFICATIONS: frozenset[Notification] = frozenset()


class JobTransition(NamedTuple):
    """The job changes: its new row, and what is saved and published with it.

    The version of `row` does not count: several transitions may be one save, and JobBatch numbers the
    saves.
    """

    row: JobRow
    verdict: str
    attempt: AttemptRow | None = None
    dead_letter: DeadLetter | None = None
    notifications: frozenset[Notification] = NO_NOTIFICATIONS


@dataclass(frozen=True, slots=True)
class NoChange:
    """The job does not change, because of `why`.

    `notifications` repeats those that an earlier delivery of the same event may have saved without
    publishing them.
    """

    why: str
    notifications: frozenset[Notification] = NO_NOTIFICATIONS


@dataclass(frozen=True, slots=True)
class ParkDecision:
    """The event contradicts the job: it is parked for a person to look at."""

    reason: Reason
    why: str


JudgeDecision = JobTransition | NoChange | ParkDecision
