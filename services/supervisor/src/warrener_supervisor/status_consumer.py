"""Receive events about attempts in batches: judge, save, publish, and only then acknowledge.

The way of an outcome to its verdict: plain successes end in one statement; `decisions.judge` decides the
rest; `effects` saves the transitions; `notifications` renders the messages from the saved rows; `effects`
publishes them.

A batch may be repeated after a crash at any point: a save counts once by its version, and an event whose
effect is in the row already repeats its notifications.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeGuard
from uuid import UUID

from warrener_contracts.codec import DecodedEvent, format_reason_counts
from warrener_contracts.events import (
    AgentHeartbeat,
    AttemptCancelled,
    AttemptData,
    AttemptFailed,
    AttemptLost,
    AttemptReleased,
    AttemptSucceeded,
    AttemptSuspended,
    ErrorKind,
    Event,
    JobCancelRequested,
    Reason,
)
from warrener_contracts.events.envelope import AGENT
from warrener_contracts.inbox import Inbox, ParkedEvent, original_user
from warrener_contracts.messages import ORIGINAL_USER, Message, batch_parked, encode
from warrener_contracts.parking import park_event
from warrener_contracts.retryability import is_unrunnable_here
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import DEAD, MAX_EVENTS, STATUS_QUEUE, Topology, dispatch_queue
from warrener_runtime.bus.port import Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.clock import Entropy
from warrener_runtime.lifecycle.declaring import declare_pieces
from warrener_runtime.logs import get_logger
from warrener_store.errors import StoreRefused
from warrener_store.gates.rows import takes_turns
from warrener_store.jobs.rows import AttemptOutcome, JobRow
from warrener_store.jobs.rules import CANCEL_MARK
from warrener_store.jobs.views import Success
from warrener_store.store import StateStore
from warrener_supervisor import effects
from warrener_supervisor.agent_owners import AgentOwners
from warrener_supervisor.breakers.monitor import BreakerMonitor
from warrener_supervisor.cancel_tree import cancel_replies, cancel_trees
from warrener_supervisor.decisions import workflow_turns
from warrener_supervisor.decisions.context import JudgeContext, Notification, ParkDecision
from warrener_supervisor.decisions.delays import count_uncharged
from warrener_supervisor.decisions.judge import JobBatch, JudgedEvent, judge_all
from warrener_supervisor.decisions.outcomes import tombstone_for
from warrener_supervisor.decisions.signals import SIGNALS, job_of
from warrener_supervisor.decisions.suspensions import WITHOUT_SUCCESS
from warrener_supervisor.effects import Contended, SupervisorPorts
from warrener_supervisor.escalation.incident_reporter import IncidentReporter, mixed_queues
from warrener_supervisor.heartbeat_consumer import ReceivedHeartbeat
from warrener_supervisor.limits import SlotKeeper
from warrener_supervisor.metrics import SupervisorMetrics
from warrener_supervisor.notifications import (
    FROM_THE_BEGINNING,
    Resumption,
    is_dispatched,
    render_messages,
    success_messages,
)
from warrener_supervisor.trace_spans import JobSpans
from warrener_supervisor.workflow_turns import Member, TurnMaker, ends_map_or_call

_log = get_logger("observe")

_OF_AGENTS = frozenset(kind for kind in SIGNALS if AGENT in kind.routes[0].senders)
"""The events that agents send about their attempts."""
_REPORTS = (AttemptSucceeded, AttemptFailed, AttemptCancelled, AttemptReleased)
_MAX_ROUNDS = 20  # other supervisors save the same jobs meanwhile; each round at least one of us gets on


@dataclass(slots=True)
class StatusBatch:
    """One batch of the status queue, sorted by its handlers."""

    entries: list[JudgedEvent] = field(default_factory=list[JudgedEvent])
    parked: list[Message] = field(default_factory=list[Message])
    heartbeats: list[ReceivedHeartbeat] = field(default_factory=list[ReceivedHeartbeat])


@dataclass(slots=True)
class SettledEvents:
    """The consequences of judged events that are saved: what to publish, and which workflows may go on."""

    messages: list[Message] = field(default_factory=list[Message])
    dispatched: list[JobRow] = field(default_factory=list[JobRow])  # workflows, with their journals
    suspended: set[UUID] = field(default_factory=set[UUID])
    awaiting: dict[UUID, list[UUID]] = field(default_factory=dict[UUID, list[UUID]])  # only these child jobs
    overtaken: set[UUID] = field(default_factory=set[UUID])  # ended ones of which children may run on
    parents: set[UUID] = field(default_factory=set[UUID])  # of jobs that have ended, and late reporters
    released: set[tuple[UUID, int]] = field(default_factory=set[tuple[UUID, int]])  # attempts of slots
    members: set[Member] = field(default_factory=set[Member])  # of maps, which have ended

    def add_end(self, parent_id: UUID | None, member_of: str | None, state: JobState) -> None:
        """Note the end of a job, which its parent may wait for."""
        if parent_id is not None and member_of is not None:
            self.members.add((parent_id, member_of))
        if parent_id is not None and ends_map_or_call(member_of, state):
            self.parents.add(parent_id)


class StatusConsumer:
    """Consumes the status queue."""

    def __init__(
        self,
        ports: SupervisorPorts,
        *,
        entropy: Entropy,
        spans: JobSpans,
        breakers: BreakerMonitor,
        turns: TurnMaker,
        slots: SlotKeeper,
        reporter: IncidentReporter,
        owners: AgentOwners,
        record_heartbeats: Callable[[Sequence[ReceivedHeartbeat]], Awaitable[list[Message]]],
        metrics: SupervisorMetrics,
        max_events: int = MAX_EVENTS,
    ) -> None:
        self._ports = ports
        _, self._store, self._clock, self._timings = ports
        self._entropy, self._spans, self._metrics = entropy, spans, metrics
        self._breakers, self._turns, self._slots, self._reporter = breakers, turns, slots, reporter
        self._owners, self._record_heartbeats = owners, record_heartbeats
        self._inbox = Inbox(STATUS_QUEUE.name, {*SIGNALS, AgentHeartbeat}, max_events=max_events)

    async def handle(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Judge one batch. Raises if broker or store fail or refuse; then nothing is acknowledged."""
        received = await self._read(deliveries)
        await self._park_foreign(received)
        cancels = [one.event for one in received.entries if isinstance(one.event, JobCancelRequested)]
        awaited = [event for event in cancels if event.data.reply_to is not None]
        before = await self._jobs_of(awaited)
        settled = await self._settle(received.entries)
        messages = [*received.parked, *settled.messages]
        if received.heartbeats:
            messages += await self._record_heartbeats(received.heartbeats)
        messages += cancel_replies(awaited, before, await self._jobs_of(awaited), self._clock)
        await self._breakers.evaluate()
        await cancel_trees(self._ports, (event for event in cancels if event.data.tree))
        _log_parked(messages)
        await effects.keep_unpublished(self._ports, await self._ports.publish(batch_parked(messages)))
        await effects.publish_turns(self._ports, settled.dispatched)
        parents = settled.parents | await self._turns.parents_of(settled.members)
        parents |= await self._turns.woken_before(settled.awaiting)
        await self._turns.wake(parents, settled.suspended, settled.overtaken)
        await self._slots.release(settled.released)
        await subscription.ack(deliveries)
        _log.debug(
            "Events about attempts were judged.",
            action="observe.judged",
            events=len(received.entries),
            messages=len(messages),
        )

    async def _jobs_of(self, cancels: Sequence[JobCancelRequested]) -> Mapping[UUID, JobRow]:
        return await self._store.jobs_by_id({event.data.job_id for event in cancels}) if cancels else {}

    async def _read(self, deliveries: Iterable[Delivery]) -> StatusBatch:
        received = StatusBatch()
        for delivery, events in await self._inbox.read(deliveries):
            user_id = original_user(delivery)
            for found in events:
                if isinstance(found, ParkedEvent):
                    received.parked.append(_with_user(found.message, user_id))
                elif isinstance(found.event, AgentHeartbeat):  # of an agent whose exchange does not take it
                    received.heartbeats.append(ReceivedHeartbeat(found.event, user_id))
                else:
                    is_cancel = isinstance(found.event, JobCancelRequested)  # which services alone send here
                    sender = _user_of_cancel(delivery) if is_cancel else user_id
                    received.entries.append(JudgedEvent(found.event, self._entropy.chance(), found, sender))
        return received

    async def _park_foreign(self, received: StatusBatch) -> None:
        """Park the reports of agents that belong to another user than the one that sent them."""
        reports = [entry for entry in received.entries if type(entry.event) in _OF_AGENTS]
        await self._owners.load({entry.event.data.agent_id for entry in reports})
        may_report = self._owners.may_report
        if foreign := [one for one in reports if not may_report(one.event.data.agent_id, one.user_id)]:
            ids = set(map(id, foreign))
            received.entries = [entry for entry in received.entries if id(entry) not in ids]
            received.parked += [
                _park_as_foreign(one, f"a report of {one.event.data.agent_id} by its own user")
                for one in foreign
            ]

    async def _take_foreign(
        self, left: dict[UUID, list[JudgedEvent]], rows: Mapping[UUID, JobRow]
    ) -> list[Message]:
        """Remove the reports about jobs of another type, and about attempts that a living agent of another
        user holds; return their parked messages. The user of a job type may report about all of its jobs."""
        await self._owners.load({row.agent_id for row in rows.values() if row.agent_id is not None})
        suspects = [
            (rows[job_id], entry)
            for job_id, entries in left.items()
            for entry in entries
            if type(entry.event) in _OF_AGENTS and self._is_suspect(rows[job_id], entry)
        ]
        types = await self._store.job_types({row.job_type for row, _ in suspects}) if suspects else {}
        parked: list[Message] = []
        for row, entry in suspects:
            type_row = types.get(row.job_type)
            if entry.event.data.job_type != row.job_type:
                expected = f"a report about a job of type {row.job_type}"
            elif type_row is not None and entry.user_id is not None and type_row.broker_user == entry.user_id:
                continue
            else:
                expected = f"a report by the user of {row.agent_id}, which holds the attempt"
            parked.append(_park_as_foreign(entry, expected))
            left[row.job_id].remove(entry)
            if not left[row.job_id]:
                del left[row.job_id]
        return parked

    def _is_suspect(self, row: JobRow, entry: JudgedEvent) -> bool:
        data: AttemptData = entry.event.data
        if data.job_type != row.job_type:
            return row.job_type != CANCEL_MARK  # of a tombstone, whose type nobody knows
        is_held = row.state is JobState.RUNNING and row.agent_id not in {None, data.agent_id}
        return is_held and not self._owners.may_report(str(row.agent_id), entry.user_id)

    async def _settle(self, entries: Sequence[JudgedEvent]) -> SettledEvents:
        """Judge and save until every entry counts."""
        left: dict[UUID, list[JudgedEvent]] = {}
        for entry in entries:
            left.setdefault(job_of(entry.event), []).append(entry)
        settled = SettledEvents()
        await self._complete_successes(left, settled)
        for _ in range(_MAX_ROUNDS):
            if not left:
                return settled
            await self._round(left, settled)
        if left:
            raise Contended(f"expected to save {len(left)} jobs in {_MAX_ROUNDS} rounds, others were faster")
        return settled

    async def _complete_successes(self, left: dict[UUID, list[JudgedEvent]], settled: SettledEvents) -> None:
        """End jobs by plain successes in one statement, without reading or judging them; remove them from
        `left`.

        Nearly all events are plain successes, for which the judge would decide the same whatever else is
        known of the job. The store ends the jobs to which that applies (`Successes`); a test compares both.
        """
        successes = {
            job_id: event
            for job_id, entries in left.items()
            if len(entries) == 1 and _is_plain_success(event := entries[0].event)
        }
        if not successes:
            return
        begun_at = self._clock.now()
        try:
            ended = await self._store.succeed_jobs(
                [_success(event) for event in successes.values()], begun_at
            )
        except StoreRefused:
            return  # one is poisonous: the judge's saves find out which
        self._metrics.record_successes(ended.values())
        messages = settled.messages
        settled.released |= {(job_id, job.attempt) for job_id, job in ended.items() if job.gates is not None}
        for job_id, job in ended.items():
            del left[job_id]
            settled.add_end(job.parent_id, job.member_of, JobState.SUCCEEDED)
            self._breakers.record_success(job.job_type, job.policy)
            messages += success_messages(job, self._spans.record_success(job, successes[job_id], begun_at))

    async def _round(self, left: dict[UUID, list[JudgedEvent]], done: SettledEvents) -> None:
        rows = await self._store.jobs_by_id(left.keys())
        if len(rows) < len(left):
            rows |= await self._insert_tombstones(left, rows)
        done.messages += [
            _park(entry, Reason.UNKNOWN_JOB, f"no job {job_id} is in the store")
            for job_id in left.keys() - rows.keys()
            for entry in left.pop(job_id)
        ]
        done.messages += await self._take_foreign(left, rows)
        context = JudgeContext(
            self._clock.now(),
            self._timings,
            holding=self._breakers.holding,
            snoozes=await count_snoozes(self._store, rows, left),
            seen=await self._seen(left),
            announced=await self._announced(left),
            failed=await self._store.failed_attempts(
                [row.job_id for row in rows.values() if row.policy.retry_rules and row.error is not None]
            ),
        )
        judged = [_judge(rows[job_id], entries, context) for job_id, entries in left.items()]
        await effects.save_checkpoints(self._store, judged)
        applied, refused = await effects.save(self._store, judged)
        await self._reporter.raise_dead_jobs(_dead(judged, applied))
        await self._reporter.raise_incidents(mixed_queues(judged, context.now))
        settled: list[JobBatch] = []
        for batch in judged:
            job_id = batch.row.job_id
            if job_id in refused:
                why = "the store refuses it"
                done.messages += [_park(entry, Reason.BAD_FIELDS, why) for entry in left.pop(job_id)]
            elif job_id in applied or not batch.saves:
                del left[job_id]
                self._breakers.record(batch)
                self._metrics.record_saved(batch)
                settled.append(batch)
        done.released |= {each for batch in settled for each in _released(batch)}
        # No publisher misses a queue behind the delay queues, which only a retry rule may name.
        moved = {batch.row.queue for batch in settled if batch.row.queue != batch.first.queue}
        if moved:
            await declare_pieces(self._ports.bus, Topology((), tuple(map(dispatch_queue, sorted(moved)))))
        await self._follow_workflows(settled, done)
        again = [
            batch.row
            for batch in settled
            if Notification.DISPATCH in batch.notifications and not batch.row.suspensions
        ]
        resumptions = await effects.load_resumptions(self._ports, again)
        for batch in settled:
            resumption = resumptions.get(batch.row.job_id, FROM_THE_BEGINNING)
            done.messages += self._messages_for(batch, resumption, context.now)

    async def _follow_workflows(self, settled: Sequence[JobBatch], done: SettledEvents) -> None:
        """Store suspensions, and collect the workflows that go on. A repeat does all of it again."""
        now = self._clock.now()
        refused = await effects.keep_suspensions(self._store, settled, now)
        for batch in settled:
            row = batch.row
            reports = [entry for entry, _ in batch.decisions if isinstance(entry.event, AttemptSuspended)]
            if row.job_id in refused:
                done.messages += [
                    _park(entry, Reason.BAD_FIELDS, "the store refuses it") for entry in reports
                ]
            elif (awaited := _awaited_at_once(batch, reports, now)) is not None:
                done.awaiting[row.job_id] = awaited
            elif row.state is JobState.SUSPENDED and (reports or row.ending is not None):
                done.suspended.add(row.job_id)
            elif row.state in WITHOUT_SUCCESS and reports:
                done.parents.add(row.job_id)
            elif _is_overtaken(batch):
                done.overtaken.add(row.job_id)
            if row.state.terminal:
                done.add_end(row.parent_id, row.member_of, row.state)
            if row.suspensions and is_dispatched(row, batch.notifications, now, self._timings):
                done.dispatched.append(row)

    async def _seen(self, left: Mapping[UUID, Sequence[JudgedEvent]]) -> Mapping[str, datetime]:
        """Return when agents were last seen; read only if an event reports a loss."""
        if not any(isinstance(entry.event, AttemptLost) for entries in left.values() for entry in entries):
            return {}
        return {agent.agent_id: agent.last_seen_at for agent in await self._store.agents()}

    async def _announced(self, left: Mapping[UUID, Sequence[JudgedEvent]]) -> Mapping[str, datetime]:
        """Return when job types were announced; read only for those that an agent reports as unknown."""
        events = [entry.event for entries in left.values() for entry in entries]
        names = {
            event.data.job_type
            for event in events
            if isinstance(event, AttemptFailed) and is_unrunnable_here(event.data.error)
        }
        rows = await self._store.job_types(names) if names else {}
        return {name: row.announced_at for name, row in rows.items()}

    async def _insert_tombstones(
        self, left: Mapping[UUID, Sequence[JudgedEvent]], rows: Mapping[UUID, JobRow]
    ) -> dict[UUID, JobRow]:
        """Insert tombstones for jobs of which only the cancel is known."""
        now = self._clock.now()
        cancels = [
            tombstone_for(entry.event, entry.user_id, now)
            for job_id in left.keys() - rows.keys()
            for entry in left[job_id]
            if isinstance(entry.event, JobCancelRequested)
        ]
        if not cancels:
            return {}
        inserted = await self._store.insert_jobs(cancels)
        return {one.row.job_id: one.row for one in inserted}

    def _messages_for(self, batch: JobBatch, resumption: Resumption, begun_at: datetime) -> list[Message]:
        messages = render_messages(
            batch.row,
            batch.notifications,
            now=self._clock.now(),
            trace=self._spans.record_batch(batch, begun_at),
            timings=self._timings,
            resumption=resumption,
        )
        for entry, decision in batch.decisions:
            if isinstance(decision, ParkDecision):
                messages.append(_park(entry, decision.reason, decision.why))
        _log_if_dead(batch)
        return messages


def _is_plain_success(event: Event[Any]) -> TypeGuard[AttemptSucceeded]:
    """True if the event reports a success that its attempt has recorded itself."""
    return type(event) is AttemptSucceeded and event.data.recorded_attempt == event.data.attempt


def _awaited_at_once(batch: JobBatch, reports: Sequence[JudgedEvent], now: datetime) -> list[UUID] | None:
    """Return the child jobs that a workflow awaits which this batch has suspended; None if its journal has to
    be read. A repeat reads it: another suspension of the attempt may have been stored before."""
    row = batch.row
    is_new = batch.first.state is not JobState.SUSPENDED and row.state is JobState.SUSPENDED
    if not is_new or row.wake_at is None or row.wake_at <= now or len(reports) != 1:
        return None
    event = reports[0].event
    assert isinstance(event, AttemptSuspended)
    return workflow_turns.awaited_at_once(event.data.suspension, now)


def _is_overtaken(batch: JobBatch) -> bool:
    """True if a workflow has succeeded by a turn that did not know the calls of a later one, or of its own
    suspension; also for a repeat."""
    row = batch.row
    if row.state is not JobState.SUCCEEDED or not row.suspensions:
        return False
    waited = batch.first.state in {JobState.SUSPENDED, JobState.SUCCEEDED}
    return any(
        isinstance(entry.event, AttemptSucceeded) and (waited or entry.event.data.attempt < row.attempt)
        for entry, _ in batch.decisions
    )


def _released(batch: JobBatch) -> Iterable[tuple[UUID, int]]:
    """Return the attempts of which an end was reported, also for a repeat: their slots are free.

    That of the attempt that a job has now is free only if the job has ended, and its last agent says so: else
    the report did not count, or the job is held. A workflow that goes on keeps its own.
    """
    row = batch.row
    if row.gates is not None and (row.state.terminal or takes_turns(row)):
        for entry, _ in batch.decisions:
            if isinstance(entry.event, _REPORTS) and not _is_loss(entry.event):
                data = entry.event.data
                by_last = row.state.terminal and row.agent_id in {None, data.agent_id}
                if data.attempt < row.attempt + by_last:
                    yield row.job_id, data.attempt


def _is_loss(event: Event[Any]) -> bool:
    """True if another agent reports the end of an attempt whose agent has died or was stopped."""
    return isinstance(event, AttemptFailed) and event.data.error.kind is ErrorKind.LOST


def _success(event: AttemptSucceeded) -> Success:
    data = event.data
    return Success(
        data.job_id,
        data.attempt,
        data.agent_id,
        data.result,
        data.started_at,
        data.finished_at,
        data.job_type,
    )


def _judge(row: JobRow, entries: Sequence[JudgedEvent], context: JudgeContext) -> JobBatch:
    """Judge one job's events. If the judge itself fails, park them, so that a bug stops no other job."""
    try:
        return judge_all(row, entries, context)
    except Exception as error:  # noqa: BLE001 - one job must not stop the others
        _log.exception(
            "The judge failed, which is a bug; its events are parked.",
            action="observe.bug",
            job_id=str(row.job_id),
        )
        parked = ParkDecision(Reason.IMPOSSIBLE, f"the judge failed: {type(error).__name__}: {error}")
        return JobBatch(row, decisions=[(entry, parked) for entry in entries])


def _dead(judged: Iterable[JobBatch], applied: Set[UUID]) -> list[JobRow]:
    """Return the jobs that this batch declares dead or holds, or repeats as such."""
    return [
        batch.row
        for batch in judged
        if (Notification.DEAD in batch.notifications or batch.row.is_held)
        and (batch.row.job_id in applied or not batch.saves)
    ]


def _park(entry: JudgedEvent, reason: Reason, detail: str) -> Message:
    origin = entry.origin or DecodedEvent(entry.event, encode(entry.event))
    return _with_user(park_event(origin, STATUS_QUEUE.name, reason, detail), entry.user_id)


def _user_of_cancel(delivery: Delivery) -> str | None:
    """Return the user that sent a command to cancel, as its supervisor says; services are no users."""
    user = delivery.headers.get(ORIGINAL_USER)
    return (user or None) if isinstance(user, str) else None


def _with_user(message: Message, user_id: str | None) -> Message:
    return message._replace(headers={**message.headers, ORIGINAL_USER: user_id or ""})


def _park_as_foreign(entry: JudgedEvent, expected: str) -> Message:
    detail = (
        f"expected {expected}, got one of {entry.event.data.agent_id} by user {entry.user_id or 'unknown'}"
    )
    return _park(entry, Reason.IMPOSSIBLE, detail)


def _log_parked(messages: Iterable[Message]) -> None:
    """Write one line per batch."""
    if not (parked := [message.headers for message in messages if message.exchange == DEAD]):
        return
    _log.error(
        "Status events that cannot be used were parked.",
        action="observe.parked",
        events=len(parked),
        reasons=format_reason_counts(Counter(Reason(headers["warrener-reason"]) for headers in parked)),
        detail=parked[0]["warrener-detail"],
    )


def _log_if_dead(batch: JobBatch) -> None:
    row = batch.row
    if batch.saves and row.state is JobState.DEAD:
        _log.warning(
            "A job died.",
            action="observe.dead",
            job_id=str(row.job_id),
            job_type=row.job_type,
            attempts=row.attempt,
            error=row.error.message if row.error else None,
        )


async def count_snoozes(
    store: StateStore, rows: Mapping[UUID, JobRow], entries: Mapping[UUID, Sequence[JudgedEvent]]
) -> dict[UUID, int]:
    """Count the snoozes of jobs that snooze now and may have reached their limit.

    A row counts attempts, failures and losses; the rest are snoozes, unless attempts were released or held
    back. So the attempts are read only where the rest has reached the limit, which is rare.
    """
    counts: dict[UUID, int] = {}
    for job_id, row in rows.items():
        if count_uncharged(row) >= row.policy.max_snoozes and any(
            isinstance(entry.event, AttemptFailed) and entry.event.data.snoozed for entry in entries[job_id]
        ):
            attempts = await store.attempts_of([job_id])
            # one with an error was charged
            snoozed = [one for one in attempts if one.outcome is AttemptOutcome.SNOOZED and one.error is None]
            counts[job_id] = len(snoozed)
    return counts
