"""Dispatch jobs that have waited for their time, past open circuit breakers, limits and full queues.

Attempt started → dispatch published → attempt marked as dispatched. A crash before the last step leaves a row
whose `dispatched_at` is not set, and a supervisor publishes it under the same attempt number. So an agent's
event about attempt 1 always finds attempt 1 in the store.

They hold accepted jobs back too: a held job waits until its breaker wakes it; one without a slot is put in
line, and supervisors dispatch it; one whose queue is full stays queued, and supervisors publish it later. A
queue that has refused a dispatch is not tried again for a while, so that neither it nor the other jobs of a
batch suffer; each scheduler remembers for itself.
"""

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.policy import JobPolicy
from warrener_contracts.retryability import REQUEST_REJECTED
from warrener_contracts.state_machine import JobState
from warrener_runtime.clock import Clock
from warrener_runtime.health import NotReady, current_health_registry
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import TraceContext
from warrener_runtime.telemetry.waits import record_waits
from warrener_scheduler.decisions.admission import Accepted, AdmissionDecision
from warrener_scheduler.messages import cancel_message, dispatch_message
from warrener_scheduler.ports import SchedulerPorts
from warrener_store.breakers.gate import RECHECK_INTERVAL, OpenBreakers
from warrener_store.gates.rows import SLOT_RECHECK
from warrener_store.jobs.rows import CLAIM_TIMEOUT, JobRow, Save
from warrener_store.jobs.timeline import current_waits
from warrener_store.store import StateStore

_log = get_logger("dispatch")
_congestion_log = get_logger("congestion")

_BATCH_SIZE = 500
_MAX_DEPTH = 20  # parents of parents
_FIRST_PAUSE, _MAX_PAUSE = timedelta(seconds=5), timedelta(minutes=1)
_UNREADY_AFTER = timedelta(seconds=15)
"""Time after which readiness names a queue that takes no messages, as the supervisor's readiness does."""


class Dispatcher:
    """Claims waiting jobs whose time has come, and dispatches them."""

    def __init__(self, ports: SchedulerPorts, gates: "DispatchGates") -> None:
        self._ports = ports
        _, self._store, self._clock, self._telemetry, self._metrics = ports
        self._breakers, self._congestion = gates

    async def run_once(self) -> None:
        """Dispatch everything that is due."""
        while await self._dispatch_batch() >= _BATCH_SIZE:
            pass  # more may be due at the same moment

    async def _dispatch_batch(self) -> int:
        now = self._clock.now()
        claimed = await self._store.claim_due([JobState.WAITING], now, now + CLAIM_TIMEOUT, _BATCH_SIZE)
        await self._end_others(claimed, now)
        # The supervisor ends the jobs whose deadline has passed.
        due = [
            row
            for row in claimed
            if not (row.is_replaced or row.leader) and (row.deadline_at is None or row.deadline_at > now)
        ]
        # Computed once: breakers may change while the first rows are saved.
        held = {row.job_id for row in due if self._breakers.is_held(row, now)}
        await self._save([_postpone(row, now) for row in due if row.job_id in held])
        admitted = await self._take_slots([row for row in due if row.job_id not in held], now)
        applied = await self._save([_start_attempt(row, now) for row in admitted])
        await self._release_replaced([row for row in admitted if row.gates is not None], applied, now)
        traced = {row.job_id for row in applied if row.traceparent is not None}
        for row in due if traced else ():
            if row.job_id in traced:  # what they have waited for until now
                context = TraceContext(row.traceparent, row.tracestate)
                record_waits(self._telemetry, row, current_waits(row, now), context)
        opened = [row for row in applied if not self._congestion.is_closed(row.queue, now)]
        refused = await self._ports.publish([dispatch_message(row, now) for row in opened])
        unpublished = {job_id for job_id, _ in refused}
        confirmed = [
            _mark_dispatched(row, self._clock.now()) for row in opened if row.job_id not in unpublished
        ]
        due_at = {row.job_id: row.due_at for row in due}
        self._metrics.record_dispatches(
            [(row.job_type, at) for row in confirmed if (at := due_at[row.job_id]) is not None],
            self._clock.now(),
        )
        await self._save(confirmed)
        await self._congestion.record_refusals(
            refused, [*confirmed, *(row for row in opened if row.job_id in unpublished)]
        )
        if applied:
            _log.info("Waiting jobs were dispatched.", action="dispatch.done", jobs=len(applied))
        return len(claimed)

    async def _end_others(self, claimed: list[JobRow], now: datetime) -> None:
        """Have waiting jobs cancelled that others have replaced, and end those for which others stand that
        have ended. All others are claimed again once their claim has ended."""
        if replaced := [row for row in claimed if row.is_replaced]:
            await self._ports.publish(
                cancel_message(row.job_id, row.cancel_reason or "", now) for row in replaced
            )
        if followers := [(row, leader) for row in claimed if (leader := row.leader) is not None]:
            leaders = await self._store.jobs_by_id({leader for _, leader in followers})
            within = await self._follow_their_parents(followers)
            ended = [
                _end_as(row, None if row.job_id in within else leaders.get(leader), now)
                for row, leader in followers
                if row.job_id in within or leader not in leaders or leaders[leader].state.terminal
            ]
            parents = {row.parent_id for row in ended if row.parent_id}
            # In any case: a scheduler that dies behind the save would wake nobody.
            await self._store.wake_suspended(parents, now + CLAIM_TIMEOUT)
            await self._save(ended)
            await self._store.wake_suspended(parents, now)

    async def _follow_their_parents(self, followers: Sequence[tuple[JobRow, UUID]]) -> set[UUID]:
        """Those whose parent, or a parent of that, is the job that stands for them: both would wait for
        ever."""
        found, above = set[UUID](), {row.job_id: row.parent_id for row, _ in followers}
        for _ in range(_MAX_DEPTH):
            found |= {row.job_id for row, leader in followers if above.get(row.job_id) == leader}
            parents = {parent for job_id, parent in above.items() if parent and job_id not in found}
            rows = await self._store.jobs_by_id(parents) if parents else {}
            above = {job_id: rows[up].parent_id for job_id, up in above.items() if up and up in rows}
        return found

    async def _take_slots(self, rows: list[JobRow], now: datetime) -> list[JobRow]:
        """Return the jobs that need no slots or have them; the others are put in line."""
        limited = [row for row in rows if row.gates is not None]
        if not limited:
            return rows
        probes = {
            row.job_id for row in limited if self._breakers.is_open(row.job_type, row.policy, row.queue)
        }
        granted = await self._store.take_or_wait(limited, probes, now)
        refused = [row for row in limited if row.job_id not in granted]
        # One that was made due again meanwhile has another version.
        await self._save([replace(_postpone(row, now), wake_at=now + SLOT_RECHECK) for row in refused])
        return [row for row in rows if row.gates is None or row.job_id in granted]

    async def _release_replaced(self, limited: list[JobRow], applied: list[JobRow], now: datetime) -> None:
        """Free the slots of jobs that were replaced since they were claimed."""
        if lost := {row.job_id for row in limited} - {row.job_id for row in applied}:
            rows = (await self._store.jobs_by_id(lost)).values()
            gates = await self._store.release_slots([(row.job_id, 1) for row in rows if row.is_replaced])
            await self._store.wake_heads(gates, now)

    async def _save(self, rows: list[JobRow]) -> list[JobRow]:
        """Save rows; returns those that were applied. Others were changed in between, as by a cancel."""
        if not rows:
            return []
        applied = await self._store.save_jobs([Save(row) for row in rows])
        return [row for row in rows if row.job_id in applied]


def _postpone(row: JobRow, now: datetime) -> JobRow:
    """Hold a job back until its breaker wakes it, or the recheck interval has passed."""
    return replace(
        row, version=row.version + 1, due_at=row.due_at or now, wake_at=now + RECHECK_INTERVAL, updated_at=now
    )


def wait_before_gate(row: JobRow, since: datetime) -> JobRow:
    """Have a new job wait for a slot instead."""
    far = since + SLOT_RECHECK
    return replace(row, state=JobState.WAITING, attempt=0, due_at=since, wake_at=far, dispatched_at=None)


def _end_as(row: JobRow, leader: JobRow | None, now: datetime) -> JobRow:
    """End a job as the one that stood for it."""
    gone = ErrorInfo(
        kind=ErrorKind.ERROR,
        type=REQUEST_REJECTED,
        message="the job that stood for it is gone, or waits for it: a parent holds the unique key",
        retryable=False,
    )
    return replace(
        row,
        version=row.version + 1,
        state=JobState.DEAD if leader is None else leader.state,
        result=None if leader is None else leader.result,
        error=gone if leader is None else leader.error,
        cancel_reason=None if leader is None else leader.cancel_reason,
        wake_at=None,
        finished_at=now,
        updated_at=now,
    )


def _start_attempt(row: JobRow, now: datetime) -> JobRow:
    """Start attempt 1, not known to be published."""
    return replace(
        row,
        version=row.version + 1,
        state=JobState.QUEUED,
        attempt=1,
        due_at=None,
        wake_at=now + row.policy.start_timeout,
        dispatched_at=None,
        updated_at=now,
    )


def _mark_dispatched(row: JobRow, now: datetime) -> JobRow:
    """Note that the broker has the dispatch: the start timeout of the policy begins."""
    return replace(
        row,
        version=row.version + 1,
        wake_at=now + row.policy.start_timeout,
        dispatched_at=now,
        updated_at=now,
    )


class BreakerCache:
    """The breakers as last read. Agents give back the jobs that pass a breaker that has opened since."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._open_breakers = OpenBreakers()

    async def refresh(self) -> None:
        self._open_breakers = OpenBreakers(await self._store.breakers())

    @property
    def paused_queues(self) -> list[str]:
        """The queues that a person has paused."""
        return self._open_breakers.paused_queues

    def is_open(self, job_type: str, policy: JobPolicy, queue: str | None) -> bool:
        """True if a breaker of this job type is not closed, or this queue is paused."""
        return self._open_breakers.find_blocking(job_type, policy, queue) is not None

    def hold_if_open(self, decision: AdmissionDecision, now: datetime) -> AdmissionDecision:
        """Hold back the job of a decision, if it would be dispatched and a breaker is not closed."""
        if not isinstance(decision, Accepted) or decision.row.state is not JobState.QUEUED:
            return decision
        row = decision.row
        if not self.is_open(row.job_type, row.policy, row.queue):
            return decision
        return Accepted(
            replace(
                row,
                state=JobState.WAITING,
                attempt=0,
                due_at=now,
                wake_at=now + RECHECK_INTERVAL,
                dispatched_at=None,
            )
        )

    def is_held(self, row: JobRow, now: datetime) -> bool:
        """True if a job that has waited must wait on, because its breaker has not chosen it as a probe."""
        return self._open_breakers.holds(row, now) is not None


@dataclass(slots=True)
class _ClosedQueue:
    since: datetime
    until: datetime
    pause: timedelta

    def has_lapsed(self, now: datetime) -> bool:
        """True if the queue could have been tried again for some time, and no refusal is known."""
        return now >= self.until + self.pause


class CongestedQueues:
    """The queues that have refused dispatches recently."""

    def __init__(self, store: StateStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._closed: dict[str, _ClosedQueue] = {}

    def is_closed(self, queue: str, now: datetime) -> bool:
        """True if `queue` is not tried now."""
        found = self._closed.get(queue)
        return found is not None and now < found.until

    def hold_if_closed(self, decision: AdmissionDecision, now: datetime) -> AdmissionDecision:
        """Leave the job of a decision unpublished, if its queue is not tried now."""
        if not self._closed or not isinstance(decision, Accepted):
            return decision
        row = decision.row
        if row.state is not JobState.QUEUED or not self.is_closed(row.queue, now):
            return decision
        return Accepted(replace(row, dispatched_at=None))

    async def check(self) -> None:
        """Raise NotReady, naming the queues that have taken no messages for some time."""
        now = self._clock.now()
        named = sorted(
            queue
            for queue, closed in self._closed.items()
            if now - closed.since >= _UNREADY_AFTER and not closed.has_lapsed(now)
        )
        if named:
            raise NotReady(f"dispatch queues take no messages, full or without a quorum: {', '.join(named)}")

    async def record_refusals(self, refused: Sequence[tuple[UUID, int]], rows: Collection[JobRow]) -> None:
        """Note these attempts of `rows` as unpublished, and close their queues for a while.

        A queue that was tried after such a while and took its dispatches is open.
        """
        if self._closed:
            self._reopen({job_id for job_id, _ in refused}, rows)
        if not refused:
            return
        if (vitals := current_health_registry.get()) is not None:
            vitals.register("dispatch queues", self.check)
        now = self._clock.now()
        await self._store.mark_unpublished(refused, now)
        jobs = {job_id for job_id, _ in refused}
        for queue in sorted({row.queue for row in rows if row.job_id in jobs}):
            self._close(queue, now)

    def _reopen(self, refused: Set[UUID], rows: Collection[JobRow]) -> None:
        full = {row.queue for row in rows if row.job_id in refused}
        for row in rows:
            closed, tried_at = self._closed.get(row.queue), row.dispatched_at
            if closed is None or tried_at is None or row.state is not JobState.QUEUED:
                continue
            if tried_at >= closed.until and row.queue not in full:
                del self._closed[row.queue]

    def _close(self, queue: str, now: datetime) -> None:
        known = self._closed.get(queue)
        if known is None or known.has_lapsed(now):
            since, pause = now, _FIRST_PAUSE
        else:
            since, pause = known.since, min(known.pause * 2, _MAX_PAUSE)
        self._closed[queue] = _ClosedQueue(since, now + pause, pause)
        _congestion_log.warning(
            "A dispatch queue takes no messages: its jobs stay in the store and are published later.",
            action="congestion.closed",
            queue=queue,
            pause=pause.total_seconds(),
        )


class DispatchGates(NamedTuple):
    breakers: BreakerCache
    congestion: CongestedQueues
