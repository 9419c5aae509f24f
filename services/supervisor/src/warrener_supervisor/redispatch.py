"""Publish again the dispatches that a queue has lost, found by comparing the store with the queue.

A repeat keeps its attempt number, so agents and the ledger make it harmless.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import DELAY_LEVELS, STATUS_QUEUE, dispatch_queue
from warrener_runtime.bus.port import BusUnreachable
from warrener_runtime.logs import get_logger
from warrener_store.jobs.rows import JobRow
from warrener_supervisor.decisions.missing_dispatches import (
    DelayedMessages,
    MissingDispatches,
    QueueSnapshot,
    find_missing,
    jobs_per_message,
    jobs_to_fill,
    messages_needed,
)
from warrener_supervisor.effects import SupervisorPorts, publish_again
from warrener_supervisor.trace_spans import JobSpans

_log = get_logger("redispatch")

_DEEP = 20_000
"""Ready messages above which a queue is not compared, because counting its jobs would cost too much."""
_SURPLUS = 10_000  # jobs that are counted beyond those for which the queue may hold messages
_MAX_COUNTED = 60_000
_OLDEST = 1_000
_BATCH_SIZE = 500
_MAX_BATCHES = 10  # batches of repeats for one queue per comparison; a later one goes on
_FIRST_PAUSE, _MAX_PAUSE = timedelta(seconds=10), timedelta(minutes=15)
"""Pause before a job is published again; it doubles each time that the job is found again."""
_IDLE_TIMEOUT = timedelta(minutes=2)
"""Time after which the messages in the longer delay queues excuse no missing ones of a queue that is empty
while its agents have free slots: they are of others, such as cancelled retries, or wait for a claim."""
_STATUS_LOOKS, _STATUS_EVERY = 5, 0.2
"""Number and interval (seconds) of looks at the status queue until it is empty."""


class _Repeat(NamedTuple):
    """The last time a job was published again, and the pause after it."""

    at: datetime
    pause: timedelta


@dataclass(slots=True)
class _Suspect:
    """A queue whose jobs have waited for some time, and the jobs of it that were published again lately."""

    snapshot: QueueSnapshot | None = None
    idle_since: datetime | None = None
    repeats: dict[UUID, _Repeat] = field(default_factory=dict[UUID, _Repeat])

    def forget_old(self, now: datetime) -> None:
        """Forget the repeats of jobs that were not found again in time."""
        self.repeats = {
            job_id: repeat for job_id, repeat in self.repeats.items() if now < repeat.at + 3 * repeat.pause
        }

    def note_idle(self, now: datetime, *, idle: bool) -> bool:
        """Note whether the queue is empty and agents have free slots; True if it has been so for long."""
        self.idle_since = (self.idle_since or now) if idle else None
        return self.idle_since is not None and now - self.idle_since >= _IDLE_TIMEOUT

    def may_repeat(self, job_id: UUID, now: datetime) -> bool:
        """True if the job was not published again lately."""
        repeat = self.repeats.get(job_id)
        return repeat is None or now >= repeat.at + repeat.pause

    def note(self, job_ids: Iterable[UUID], now: datetime) -> None:
        """Record that these jobs are published again."""
        for job_id in job_ids:
            before = self.repeats.get(job_id)
            pause = _FIRST_PAUSE if before is None else min(2 * before.pause, _MAX_PAUSE)
            self.repeats[job_id] = _Repeat(now, pause)


class Redispatcher:
    """Compares the queued jobs of the store with the messages of each dispatch queue."""

    def __init__(self, ports: SupervisorPorts, *, spans: JobSpans) -> None:
        self._ports, self._spans = ports, spans
        self._bus, self._store, self._clock, self._timings = ports
        self._suspects: dict[str, _Suspect] = {}

    async def run_once(self) -> None:
        """Compare every queue that has jobs dispatched some time ago."""
        settled = self._clock.now() - self._timings.settled
        heads = await self._store.queue_heads()
        queues = [head.queue for head in heads if head.oldest is not None and head.oldest <= settled]
        self._suspects = {queue: self._suspects.get(queue, _Suspect()) for queue in queues}
        if not queues:
            return
        try:
            if not await self._statuses_are_read():
                return  # jobs may have ended in events that are not read yet
            delayed = await self._delayed()
        except BusUnreachable:
            for suspect in self._suspects.values():
                suspect.snapshot = None  # messages on their way to agents come back
            return
        slots = await self._free_slots()
        for queue, suspect in self._suspects.items():
            await self._compare(queue, suspect, delayed, slots.get(queue, 0))

    async def _statuses_are_read(self) -> bool:
        for turn in range(_STATUS_LOOKS):
            if turn:
                await self._clock.sleep(_STATUS_EVERY)
            if not (await self._bus.backlog(STATUS_QUEUE.name)).waiting:
                return True
        return False

    async def _compare(self, queue: str, suspect: _Suspect, delayed: DelayedMessages, slots: int) -> None:
        before = suspect.snapshot
        found = suspect.snapshot = await self._look_at(queue, suspect, delayed, slots)
        if found is None or before is None:
            return
        suspect.forget_old(found.at)
        gone = find_missing(before, found)
        if not gone.messages or not gone.jobs:
            return
        if repeated := await self._repeat(queue, suspect, gone, before.at - self._timings.settled):
            suspect.snapshot = None
            _log.warning(
                "Dispatches were missing from their queue and were published again, under the same attempt"
                " numbers. Was it purged or deleted?",
                action="redispatch.repeated",
                queue=queue,
                jobs=repeated,
            )

    async def _look_at(
        self, queue: str, suspect: _Suspect, delayed: DelayedMessages, slots: int
    ) -> QueueSnapshot | None:
        """Take a snapshot of the queue; None if too many messages wait in it."""
        now = self._clock.now()
        ready = (await self._bus.backlog(dispatch_queue(queue).name)).waiting
        if suspect.note_idle(now, idle=not ready and slots > 0):
            delayed = delayed._replace(longer=0)
        if ready > _DEEP:
            return None
        until = now - self._timings.settled
        limit = min(_MAX_COUNTED, 16 * (ready + delayed.messages + slots) + _SURPLUS)
        settled, every = messages_needed(await self._store.queued_groups(queue, until, limit))
        oldest = await self._store.oldest_queued(queue, until, _OLDEST)
        return QueueSnapshot(
            now, settled, every, ready, delayed, slots, {job.job_id: job.dispatched_at for job in oldest}
        )

    async def _repeat(self, queue: str, suspect: _Suspect, gone: MissingDispatches, until: datetime) -> int:
        """Publish missing dispatches, except those published again lately; return how many jobs."""
        now = self._clock.now()
        left, waiting, repeated = gone.messages, list(gone.jobs), 0
        for _ in range(_MAX_BATCHES):
            if not waiting and gone.beyond:
                found = await self._store.oldest_queued(queue, until, _BATCH_SIZE)
                waiting = [job.job_id for job in found]
            batch, waiting = waiting[:_BATCH_SIZE], waiting[_BATCH_SIZE:]
            batch = [job_id for job_id in batch if suspect.may_repeat(job_id, now)]
            rows = await self._store.jobs_by_id(batch) if batch else {}
            chosen = jobs_to_fill(left, [rows[each] for each in batch if _still_waits(rows.get(each), until)])
            if not chosen:
                break
            suspect.note([row.job_id for row in chosen], now)
            count, refused = await publish_again(self._ports, chosen, self._spans)
            repeated += count
            left -= round(sum(1 / jobs_per_message(row) for row in chosen))
            if left <= 0 or refused:
                break
        return repeated

    async def _delayed(self) -> DelayedMessages:
        """Return an upper bound of the queued jobs' messages in the delay queues.

        An agent without a free slot puts a message into the shortest one. The longer ones hold retries;
        messages beyond those are counted as queued jobs'.
        """
        shortest, *longer = [(await self._bus.backlog(level.queue)).waiting for level in DELAY_LEVELS]
        counts = await self._store.count_jobs()
        retries = sum(count.jobs for count in counts if count.state is JobState.RETRYING)
        return DelayedMessages(shortest, max(0, sum(longer) - retries))

    async def _free_slots(self) -> Mapping[str, int]:
        """Return free slots of living agents by queue: each may hold a message about to begin."""
        alive = self._clock.now() - self._timings.lease
        slots: dict[str, int] = {}
        for agent in await self._store.agents():
            if agent.last_seen_at > alive:
                free = agent.free_slots
                if free is None:  # an agent of an earlier version does not say it by queue
                    free = dict.fromkeys(agent.queues, max(0, agent.slots - agent.running))
                for queue in agent.queues:
                    slots[queue] = slots.get(queue, 0) + free.get(queue, 0)
        return slots


def _still_waits(row: JobRow | None, until: datetime) -> bool:
    dispatched_at = row.dispatched_at if row is not None and row.state is JobState.QUEUED else None
    return dispatched_at is not None and dispatched_at <= until
