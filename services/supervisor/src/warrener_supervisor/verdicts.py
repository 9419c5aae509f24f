"""What the judge can say, as data."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from warrener_contracts.events import Reason
from warrener_store.rows import AttemptRow, DeadLetter, JobRow


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
