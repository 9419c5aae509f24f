"""unpublished: publish queued jobs whose dispatch the broker does not have; name the queues that take none.

A queue that refuses is probed with a few jobs, less and less often; once it takes them, more follow each
time. So a million jobs that wait for a full queue cost it a handful of messages, and the other queues
nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from warrener_contracts.events import Checkpoint
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.lifecycle.health_registry import NotReady, current_health_registry
from warrener_runtime.logs import get_logger
from warrener_store.escalations import REFUSING_QUEUE, RaisedIncident, refusing_fingerprint
from warrener_store.job_row import evolve
from warrener_store.port import Save, StateStore
from warrener_store.rows import JobRow
from warrener_supervisor import effects
from warrener_supervisor.escalation.incident_reporter import IncidentReporter
from warrener_supervisor.missing_dispatches import jobs_per_message
from warrener_supervisor.notifications import dispatch_message
from warrener_supervisor.timings import Timings
from warrener_supervisor.waiting_notices import WaitingNotices

_log = get_logger("unpublished")

_BATCH_SIZE = 500
_MAX_BATCHES = 20
_PROBE = 10
"""Jobs that are published to a queue which has refused."""
_FIRST_PAUSE, _MAX_PAUSE = timedelta(seconds=1), timedelta(seconds=15)


@dataclass(slots=True)
class _RefusingQueue:
    """How a queue with unpublished jobs has taken them so far."""

    size: int = _BATCH_SIZE
    retry_at: datetime | None = None
    pause: timedelta = field(default=_FIRST_PAUSE)
    refused_since: datetime | None = None
    named: bool = False


class UnpublishedDispatcher:
    """The verb that publishes what the store keeps for queues that did not take it."""

    def __init__(
        self, bus: Bus, store: StateStore, clock: Clock, timings: Timings, incidents: IncidentReporter
    ) -> None:
        self._bus, self._store, self._clock, self._timings = bus, store, clock, timings
        self._incidents = incidents
        self._notices = WaitingNotices(bus, store, clock)
        self._queues: dict[str, _RefusingQueue] = {}

    async def run_once(self) -> None:
        """Publish what each queue takes."""
        if (vitals := current_health_registry.get()) is not None:
            vitals.register("dispatch queues", self.check)
        heads = [head.queue for head in await self._store.queue_heads() if head.unpublished]
        self._queues = {queue: self._queues.get(queue, _RefusingQueue()) for queue in heads}
        for name, queue in self._queues.items():
            now = self._clock.now()
            if queue.retry_at is None or now >= queue.retry_at:
                await self._publish(name, queue)
        await self._name_refusing()
        await self._notices.publish(
            {
                name: queue.refused_since
                for name, queue in self._queues.items()
                if queue.named and queue.refused_since
            }
        )

    async def check(self) -> None:
        """Raise NotReady, naming the queues that have taken nothing for some time."""
        if named := sorted(name for name, queue in self._queues.items() if queue.named):
            raise NotReady(f"dispatch queues take no messages, full or without a quorum: {', '.join(named)}")

    async def _publish(self, name: str, queue: _RefusingQueue) -> None:
        for _ in range(_MAX_BATCHES):
            now = self._clock.now()
            rows = await self._store.unpublished_jobs(name, now - self._timings.unpublished_grace, queue.size)
            if not rows:
                return
            published, refused = await publish_again(self._bus, self._store, self._clock, rows)
            if not published:
                return  # another supervisor has just taken these: that says nothing of the queue
            if refused:
                queue.size = _PROBE
                some = refused < published
                queue.pause = _FIRST_PAUSE if some else min(queue.pause * 2, _MAX_PAUSE)
                queue.refused_since = None if some else queue.refused_since or now
                queue.named = queue.named and not some
                queue.retry_at = now + queue.pause
                return
            _log.info(
                "Queued jobs were published.", action="unpublished.published", queue=name, jobs=published
            )
            wanted, queue.size = queue.size, min(queue.size * 2, _BATCH_SIZE)
            queue.pause, queue.retry_at, queue.refused_since, queue.named = _FIRST_PAUSE, None, None, False
            if len(rows) < wanted:
                return

    async def _name_refusing(self) -> None:
        """Raise an incident for each queue that has taken nothing for some time, once."""
        now = self._clock.now()
        fresh = {
            name: queue.refused_since
            for name, queue in self._queues.items()
            if not queue.named
            and queue.refused_since
            and now - queue.refused_since >= self._timings.no_consumer_timeout
        }
        if not fresh:
            return
        await self._incidents.raise_cases([_raised(name, since, now) for name, since in fresh.items()])
        for name, since in fresh.items():
            self._queues[name].named = True
            _log.error(
                "A dispatch queue takes no messages: its jobs wait in the store."
                " Is it full, or without a quorum?",
                action="unpublished.refusing",
                queue=name,
                since=since.isoformat(),
            )


async def publish_again(bus: Bus, store: StateStore, clock: Clock, rows: Sequence[JobRow]) -> tuple[int, int]:
    """Publish the current attempts of these queued jobs, but for those that others have changed since; how
    many those are, and how many of them their queue did not take.

    A repeat keeps its attempt number: agents and the ledger make it harmless. A save decides which of several
    supervisors publishes it, and sets `dispatched_at` first; should this process die before it publishes, the
    comparison with the queue finds the job (`redispatch`).
    """
    now = clock.now()
    again = [evolve(row, version=row.version + 1, dispatched_at=now, updated_at=now) for row in rows]
    applied = await store.save_jobs([Save(row) for row in again])
    mine = [row for row in again if row.job_id in applied]
    if mine:
        checkpoints = await _checkpoints(store, [row.job_id for row in mine if row.attempt > 1])
        messages = [
            dispatch_message(row, now, checkpoints.get(row.job_id))._replace(
                per_message=jobs_per_message(row)
            )
            for row in mine
        ]
        refused = await effects.publish(bus, messages, clock)
        await effects.keep_unpublished(store, refused, clock)
        return len(mine), len(refused)
    return 0, 0


async def _checkpoints(store: StateStore, job_ids: Sequence[UUID]) -> Mapping[UUID, Checkpoint]:
    found = await store.checkpoints_of(job_ids) if job_ids else {}
    return {job_id: Checkpoint(number=row.number, state=row.state) for job_id, row in found.items()}


def _raised(queue: str, since: datetime, now: datetime) -> RaisedIncident:
    text = (
        f"dispatch queue {queue} takes no messages since {since.isoformat()}: it is full or without a "
        "quorum; its jobs wait in the store, and are published once it takes them"
    )
    return RaisedIncident(
        kind=REFUSING_QUEUE,
        fingerprint=refusing_fingerprint(queue),
        occurrence=since.isoformat(timespec="minutes"),
        subject=queue,
        job_type=None,
        sample={"text": text, "since": since.isoformat()},
        raised_at=now,
    )
