"""Decide how many dispatches of a queue are lost, by two snapshots of the store and of the queue.

Time in a queue proves nothing. Two facts do. By count: the jobs that the store has as queued need more
messages than the queue, the delay queues and the agents' free slots can hold. By order: a queue is first
in, first out, so a job that waits while later ones have begun, or while the queue is empty, has no message
in it; this finds the few that a count cannot distinguish from messages on their way. In a queue that holds
as many messages as its jobs need, nothing is lost, whatever was overtaken.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import ceil
from typing import NamedTuple
from uuid import UUID

from warrener_store.jobs.rows import JobRow
from warrener_store.jobs.views import QueuedGroup


class DelayedMessages(NamedTuple):
    """Messages in the delay queues that may be of queued jobs: in the shortest one, and beyond it."""

    shortest: int = 0
    longer: int = 0

    @property
    def messages(self) -> int:
        return self.shortest + self.longer


class QueueSnapshot(NamedTuple):
    """One snapshot of a dispatch queue.

    `settled` and `every`: the least number of messages for the queued jobs, for those dispatched some time
    ago and for all. `oldest`: the first of the settled jobs, in order.
    """

    at: datetime
    settled: int
    every: int
    ready: int
    delayed: DelayedMessages
    slots: int
    oldest: Mapping[UUID, datetime]

    @property
    def certain(self) -> int:
        """Messages that are lost even if each free slot is about to begin one."""
        return max(0, self.settled - self.ready - self.delayed.messages - self.slots)

    @property
    def possible(self) -> int:
        """Messages that are lost unless agents are about to begin them.

        If the queue is empty and agents have free slots, none of its messages circles by the shortest
        delay queue: an agent would have begun it when it came back. The messages in there belong to other
        queues.
        """
        if self.ready:
            return max(0, self.every - self.ready - self.delayed.messages)
        delayed = self.delayed.longer if self.slots else self.delayed.messages
        return max(0, self.settled - delayed)


class MissingDispatches(NamedTuple):
    """How many messages are lost, and the jobs among which they are, the first dispatched first.

    `beyond`: nothing has moved, so that later jobs may be among them too.
    """

    messages: int = 0
    jobs: tuple[UUID, ...] = ()
    beyond: bool = False


def find_missing(before: QueueSnapshot, now: QueueSnapshot) -> MissingDispatches:
    """Compare two snapshots, some seconds apart."""
    stuck = tuple(job_id for job_id, at in now.oldest.items() if before.oldest.get(job_id) == at)
    if certain := min(before.certain, now.certain):
        return MissingDispatches(certain, stuck, beyond=len(stuck) == len(before.oldest))
    if possible := min(before.possible, now.possible):
        if before.ready or now.ready:
            stuck = _overtaken(before, now, stuck)
        return MissingDispatches(possible, stuck)
    return MissingDispatches()


def messages_needed(groups: Iterable[QueuedGroup]) -> tuple[int, int]:
    """Return how many messages the settled jobs, and all jobs, need at least."""
    settled = every = 0
    for each in groups:
        settled += ceil(each.settled / each.policy.dispatch_batch)
        every += ceil(each.jobs / each.policy.dispatch_batch)
    return settled, every


def jobs_to_fill(messages: int, rows: Iterable[JobRow]) -> list[JobRow]:
    """Return the first jobs whose dispatches fill this number of messages."""
    chosen: list[JobRow] = []
    filled = 0.0
    for row in rows:
        if filled >= messages:
            break
        chosen.append(row)
        filled += 1 / jobs_per_message(row)
    return chosen


def jobs_per_message(row: JobRow) -> int:
    """Return how many dispatches like this one may share a message."""
    return row.policy.dispatch_batch if row.attempt == 1 else 1


def _overtaken(before: QueueSnapshot, now: QueueSnapshot, stuck: tuple[UUID, ...]) -> tuple[UUID, ...]:
    """Return the jobs behind which another has left the queue since."""
    left = [at for job_id, at in before.oldest.items() if job_id not in now.oldest]
    newest = max(left, default=None)
    return () if newest is None else tuple(job_id for job_id in stuck if now.oldest[job_id] < newest)
