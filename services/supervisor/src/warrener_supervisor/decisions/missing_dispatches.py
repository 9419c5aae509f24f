"""DOC"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import ceil
from typing import NamedTuple
from uuid import UUID

from warrener_store.queued import QueuedGroup
from warrener_store.rows import JobRow


class DelayedMessages(NamedTuple):
    """Messages in the delay queues that may be of queued jobs: in the shortest, and in those beyond it."""

    shortest: int = 0
    longer: int = 0

    @property
    def messages(self) -> int:
        """All of them."""
        return self.shortest + self.longer


class QueueSnapshot(NamedTuple):
    """One look at a dispatch queue. `settled` and `every`: how many messages the queued jobs need at least,
    those dispatched some time ago and all; `oldest`: the first of the settled, in order."""

    at: datetime
    settled: int
    every: int
    ready: int
    delayed: DelayedMessages
    slots: int
    oldest: Mapping[UUID, datetime]

    @property
    def certain(self) -> int:
        """Messages that are gone even if each free slot is about to begin one."""
        return max(0, self.settled - self.ready - self.delayed.messages - self.slots)

    @property
    def possible(self) -> int:
        """Messages that are gone unless agents are about to begin them.

        Where the queue is empty and agents have free slots, nothing circles by the shortest delay queue: an
        agent would have begun it when it came back. What is in there belongs to other queues.
        """
        if self.ready:
            return max(0, self.every - self.ready - self.delayed.messages)
        delayed = self.delayed.longer if self.slots else self.delayed.messages
        return max(0, self.settled - delayed)


class MissingDispatches(NamedTuple):
    """How many messages are gone, and the jobs among which they are, the first dispatched first. `beyond`:
    nothing has moved, so jobs behind these may be among them too."""

    messages: int = 0
    jobs: tuple[UUID, ...] = ()
    beyond: bool = False


def find_missing(before: QueueSnapshot, now: QueueSnapshot) -> MissingDispatches:
    """Compare two looks, some seconds apart."""
    stuck = tuple(job_id for job_id, at in now.oldest.items() if before.oldest.get(job_id) == at)
    if certain := min(before.certain, now.certain):
        return MissingDispatches(certain, stuck, beyond=len(stuck) == len(before.oldest))
    if possible := min(before.possible, now.possible):
        if before.ready or now.ready:
            stuck = _overtaken(before, now, stuck)
        return MissingDispatches(possible, stuck)
    return MissingDispatches()


def messages_needed(groups: Iterable[QueuedGroup]) -> tuple[int, int]:
    """Messages that the settled, and all, of these jobs need at least."""
    counted = [
        (ceil(each.settled / each.policy.per_message), ceil(each.jobs / each.policy.per_message))
        for each in groups
    ]
    return sum(settled for settled, _ in counted), sum(jobs for _, jobs in counted)


def jobs_to_fill(messages: int, rows: Iterable[JobRow]) -> list[JobRow]:
    """The first of these whose dispatches fill so many messages."""
    chosen: list[JobRow] = []
    filled = 0.0
    for row in rows:
        if filled >= messages:
            break
        chosen.append(row)
        filled += 1 / jobs_per_message(row)
    return chosen


def jobs_per_message(row: JobRow) -> int:
    """How many dispatches like this one may share a message."""
    return row.policy.per_message if row.attempt == 1 else 1


def _overtaken(before: QueueSnapshot, now: QueueSnapshot, stuck: tuple[UUID, ...]) -> tuple[UUID, ...]:
    """Those behind which another has left the queue since."""
    left = [at for job_id, at in before.oldest.items() if job_id not in now.oldest]
    newest = max(left, default=None)
    return () if newest is None else tuple(job_id for job_id in stuck if now.oldest[job_id] < newest)
