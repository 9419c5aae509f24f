"""Publish queued jobs whose dispatch the broker does not have; report queues that refuse.

A queue that refuses is probed with a few jobs, less and less often; once it takes them, more follow each
time. So a million jobs that wait for a full queue cost it a handful of messages, and the other queues
nothing.

After some time an incident is raised, and each requester receives `job.waiting`, once per attempt. A
notified job is marked in the store first, by a conditional save that also decides which of several
supervisors publishes. A supervisor that dies between the two leaves at most a slice without its notice;
the store still has the reason.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from warrener_contracts.events import JobWaiting, JobWaitingData
from warrener_contracts.messages import Message, as_reply, build_message
from warrener_runtime.health import NotReady, current_health_registry
from warrener_runtime.logs import get_logger
from warrener_store.incidents.rows import REFUSING_QUEUE, RaisedIncident, refusing_fingerprint
from warrener_store.jobs.rows import JobRow, Save, evolve
from warrener_store.jobs.views import FIRST_ID, REFUSAL_REPORTED
from warrener_supervisor.decisions.signals import job_event
from warrener_supervisor.effects import SupervisorPorts, publish_again
from warrener_supervisor.escalation.incident_reporter import IncidentReporter
from warrener_supervisor.trace_spans import JobSpans

_log = get_logger("unpublished")

_BATCH_SIZE = 500
_MAX_BATCHES = 20
_PROBE = 10  # jobs that are published to a queue which has refused
_FIRST_PAUSE, _MAX_PAUSE = timedelta(seconds=1), timedelta(seconds=15)
_SLICE = 500
_SLICES = 4  # slices per look, over all queues: 2,000 jobs
_FIRST_REREAD, _MAX_REREAD = timedelta(seconds=15), timedelta(minutes=5)


@dataclass(slots=True)
class _RefusingQueue:
    """State of a queue with unpublished jobs."""

    size: int = _BATCH_SIZE
    retry_at: datetime | None = None
    pause: timedelta = field(default=_FIRST_PAUSE)
    refused_since: datetime | None = None
    named: bool = False


class UnpublishedDispatcher:
    """Publishes the dispatches that the store keeps for queues that refused them."""

    def __init__(self, ports: SupervisorPorts, reporter: IncidentReporter, *, spans: JobSpans) -> None:
        self._ports = ports
        _, self._store, self._clock, self._timings = ports
        self._reporter, self._spans = reporter, spans
        self._notices = WaitingNotices(ports)
        self._queues: dict[str, _RefusingQueue] = {}

    async def run_once(self) -> None:
        """Publish as many dispatches as each queue takes, and report those that take none."""
        if (vitals := current_health_registry.get()) is not None:
            vitals.register("dispatch queues", self.check)
        heads = [head.queue for head in await self._store.queue_heads() if head.unpublished]
        self._queues = {queue: self._queues.get(queue, _RefusingQueue()) for queue in heads}
        for name, queue in self._queues.items():
            now = self._clock.now()
            if queue.retry_at is None or now >= queue.retry_at:
                await self._publish(name, queue)
        await self._name_refusing()
        since = {name: queue.refused_since for name, queue in self._queues.items() if queue.named}
        await self._notices.publish({name: at for name, at in since.items() if at is not None})

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
            published, refused = await publish_again(self._ports, rows, self._spans)
            if not published:
                return  # another supervisor has just published these, which says nothing about the queue
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
        now, patience = self._clock.now(), self._timings.no_consumer_timeout
        fresh = {
            name: since
            for name, queue in self._queues.items()
            if not queue.named and (since := queue.refused_since) and now - since >= patience
        }
        if not fresh:
            return
        await self._reporter.raise_incidents([_raised(name, since, now) for name, since in fresh.items()])
        for name, since in fresh.items():
            self._queues[name].named = True
            _log.error(
                "A dispatch queue takes no messages: its jobs wait in the store."
                " Is it full, or without a quorum?",
                action="unpublished.refusing",
                queue=name,
                since=since.isoformat(),
            )


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
        sample={"text": text, "since": since.isoformat()},
        raised_at=now,
    )


@dataclass(slots=True)
class _Position:
    """Position in the unpublished jobs of a queue, in the order of their ids.

    New jobs mostly follow, since most ids grow with time; for the others the queue is read again from its
    first job, at growing intervals.
    """

    last: UUID = FIRST_ID
    pause: timedelta = _FIRST_REREAD
    again_at: datetime | None = None


class WaitingNotices:
    def __init__(self, ports: SupervisorPorts) -> None:
        self._ports = ports
        _, self._store, self._clock, _ = ports
        self._positions: dict[str, _Position] = {}

    async def publish(self, refusing: Mapping[str, datetime]) -> None:
        """Publish the next notices; `refusing` maps each queue to the time of its first refusal."""
        known = {queue: at for queue, at in self._positions.items() if queue in refusing}
        # Queues that were read last time come last, so that a long one keeps none from its turn.
        self._positions = {queue: _Position() for queue in refusing if queue not in known} | known
        left = _SLICES
        for queue, position in list(self._positions.items()):
            while left and await self._slice(queue, refusing[queue], position):
                left -= 1
            self._positions[queue] = self._positions.pop(queue)
            if not left:
                return

    async def _slice(self, queue: str, since: datetime, position: _Position) -> bool:
        """Notify the requesters of one slice; True if more may follow at once."""
        now = self._clock.now()
        if position.again_at is not None and now >= position.again_at:
            position.last, position.again_at = FIRST_ID, None
        rows = await self._store.unpublished_jobs(queue, now, _SLICE, after=position.last)
        if rows:
            position.last = rows[-1].job_id
            await self._notify([row for row in rows if row.wake_at != REFUSAL_REPORTED], since, now)
        if len(rows) == _SLICE:
            return True
        if position.again_at is None:
            position.again_at = now + position.pause
            position.pause = min(position.pause * 2, _MAX_REREAD)
        return False

    async def _notify(self, rows: Iterable[JobRow], since: datetime, now: datetime) -> None:
        marked = [evolve(row, version=row.version + 1, wake_at=REFUSAL_REPORTED) for row in rows]
        if not marked:
            return
        applied = await self._store.save_jobs([Save(row) for row in marked])
        mine = [row for row in marked if row.job_id in applied]
        await self._ports.publish([message for row in mine for message in _messages(row, since, now)])
        _log.info(
            "Requesters were notified that jobs wait.", action="waiting_notices.published", jobs=len(mine)
        )


def _messages(row: JobRow, since: datetime, now: datetime) -> list[Message]:
    """Render `job.waiting` for subscribers and for each reply address."""
    data = JobWaitingData(
        job_id=row.job_id,
        job_type=row.job_type,
        attempt=row.attempt,
        queue=row.queue,
        reason=f"dispatch queue {row.queue} takes no messages since {since.isoformat(timespec='seconds')}:"
        " it is full or without a quorum; the job runs once the queue takes it",
        since=since,
    )
    to_all = build_message(job_event(JobWaiting, row, f"{row.attempt}:waiting", now, data))
    return [to_all, *(as_reply(to_all, address) for address in row.watchers)]
