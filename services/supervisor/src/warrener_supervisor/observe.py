"""observe: what becomes of attempts, heard in batches, judged, saved, told, and only then acknowledged.

Safe to be killed anywhere and run again with the same batch: a save counts once by its version, and an event
whose effect is in the row already repeats what there was to tell.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.events import AttemptLost, BreakerSetRequested, Checkpoint, JobCancelRequested, Reason
from warrener_contracts.inbox import decode_all
from warrener_contracts.messages import Message, encode, batch_parked
from warrener_contracts.states import JobState
from warrener_contracts.topology import DEAD, MAX_EVENTS, STATUS_QUEUE
from warrener_contracts.decode_failures import format_reason_counts
from warrener_runtime.bus.port import Bus, Delivery, Subscription
from warrener_runtime.clock import Clock, Entropy
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import Telemetry, TraceContext
from warrener_store.port import StateStore
from warrener_store.rows import JobRow
from warrener_supervisor import act, checkpointing, snoozing
from warrener_supervisor.breakers.keeper import Breakers
from warrener_supervisor.escalation.intake import CaseWish, Intake
from warrener_supervisor.fold import Case, Folded, fold
from warrener_supervisor.judged_trace import judged
from warrener_supervisor.mixed_queues import mixed_queues
from warrener_supervisor.moment import Moment
from warrener_supervisor.parking import parked_bytes, parked_event
from warrener_supervisor.requeue import ParkedCommand, Requeue
from warrener_supervisor.rules import Rules
from warrener_supervisor.short_way import ShortWay
from warrener_supervisor.signals import SIGNALS, job_of
from warrener_supervisor.tidings import letters_of
from warrener_supervisor.trees import Trees
from warrener_supervisor.unheard import unheard_of
from warrener_supervisor.verdicts import Judgement, Parked, Tell

_log = get_logger("observe")

_MOST_ROUNDS = 20  # others save the same jobs meanwhile; each round at least one of us gets on


class Contended(Exception):
    """Others changed the same jobs again and again; the batch is tried anew after a pause."""


@dataclass(slots=True)
class Heard:
    """What one batch of the status queue holds, sorted by who is to do something about it."""

    cases: list[Case] = field(default_factory=list[Case])
    orders: list[BreakerSetRequested] = field(default_factory=list[BreakerSetRequested])
    wishes: list[CaseWish] = field(default_factory=list[CaseWish])
    commands: list[ParkedCommand] = field(default_factory=list[ParkedCommand])
    parked: list[Message] = field(default_factory=list[Message])


class Observe:
    """The verb that hears the status queue."""

    def __init__(
        self,
        bus: Bus,
        store: StateStore,
        clock: Clock,
        *,
        entropy: Entropy,
        telemetry: Telemetry,
        rules: Rules,
        breakers: Breakers,
        intake: Intake,
        max_events: int = MAX_EVENTS,
    ) -> None:
        self._bus = bus
        self._store = store
        self._clock = clock
        self._entropy = entropy
        self._telemetry = telemetry
        self._rules = rules
        self._breakers = breakers
        self._intake = intake
        self._requeue = Requeue(bus, store)
        self._max_events = max_events
        self._trees = Trees(bus, store, clock)
        self._short_way = ShortWay(store, clock, telemetry, breakers)

    async def handle(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Judge one batch. Raises for infrastructure's sake alone, and then nothing is acknowledged."""
        heard = await self._read(deliveries)
        for order in heard.orders:
            await self._breakers.obey(order)
        letters = heard.parked + await self._settle(heard.cases)
        await self._breakers.turn()
        await self._intake.hear(heard.wishes)
        await self._requeue.carry_out(heard.commands)
        await self._trees.fell(_with_trees(heard.cases))
        _say_parked(letters)
        refused = await act.publish(self._bus, batch_parked(letters), self._clock)
        await act.keep_unpublished(self._store, refused, self._clock)
        await subscription.ack(deliveries)
        _log.debug(
            "News of attempts was judged.",
            action="observe.judged",
            events=len(heard.cases),
            told=len(letters),
        )

    async def _read(self, deliveries: Iterable[Delivery]) -> Heard:
        heard = Heard()
        for _, events in await decode_all(deliveries, max_events=self._max_events):
            for found in events:
                if isinstance(found, DecodeFailure):
                    heard.parked.append(parked_bytes(found, STATUS_QUEUE.name))
                elif type(found.event) in SIGNALS:
                    heard.cases.append(Case(found.event, self._entropy.chance(), found))
                elif isinstance(found.event, BreakerSetRequested):
                    heard.orders.append(found.event)
                elif isinstance(found.event, CaseWish):
                    heard.wishes.append(found.event)
                elif isinstance(found.event, ParkedCommand):
                    heard.commands.append(found.event)
                else:
                    heard.parked.append(_park(found, Reason.WRONG_QUEUE, "expected news of attempts here"))
        return heard

    async def _settle(self, cases: Sequence[Case]) -> list[Message]:
        """Judge and save until every case counts; what there is to tell."""
        left: dict[UUID, list[Case]] = {}
        for case in cases:
            left.setdefault(job_of(case.event), []).append(case)
        letters = await self._short_way.take(left)
        for _ in range(_MOST_ROUNDS):
            if not left:
                return letters
            letters += await self._round(left)
        if left:
            raise Contended(f"expected to save {len(left)} jobs in {_MOST_ROUNDS} rounds, others were faster")
        return letters

    async def _round(self, left: dict[UUID, list[Case]]) -> list[Message]:
        rows = await self._store.jobs_by_id(left.keys())
        if len(rows) < len(left):
            rows |= await self._cancelled_unheard(left, rows)
        letters = [letter for job_id in left.keys() - rows.keys() for letter in _unknown(left.pop(job_id))]
        snoozes = await snoozing.counted(self._store, rows, left)
        seen = await self._seen(left)
        at = Moment(
            self._clock.now(), self._rules, holding=self._breakers.holding, snoozes=snoozes, seen=seen
        )
        judged = [_judge(rows[job_id], cases, at) for job_id, cases in left.items()]
        await checkpointing.keep(self._store, judged)
        applied, refused = await act.save(self._store, judged)
        await self._intake.bury(_dead(judged, applied))
        await self._intake.raise_cases(mixed_queues(judged, at.now))
        settled: list[Folded] = []
        for folded in judged:
            job_id = folded.row.job_id
            if job_id in refused:
                letters += [
                    _park(_came(case), Reason.BAD_FIELDS, "the store refuses it") for case in left.pop(job_id)
                ]
            elif job_id in applied or not folded.saves:
                del left[job_id]
                self._breakers.note(folded)
                settled.append(folded)
        checkpoints = await checkpointing.for_dispatch(self._store, settled)
        for folded in settled:
            letters += self._tell(folded, checkpoints.get(folded.row.job_id))
        return letters

    async def _seen(self, left: Mapping[UUID, Sequence[Case]]) -> Mapping[str, datetime]:
        """When agents were last seen; asked only where an attempt is said to be lost with one."""
        if not any(isinstance(case.event, AttemptLost) for cases in left.values() for case in cases):
            return {}
        return {agent.agent_id: agent.last_seen_at for agent in await self._store.agents()}

    async def _cancelled_unheard(
        self, left: Mapping[UUID, Sequence[Case]], rows: Mapping[UUID, JobRow]
    ) -> dict[UUID, JobRow]:
        """The jobs of which only the cancel has been heard: from now on they are there, and over."""
        now = self._clock.now()
        cancels = [
            case.event
            for job_id in left.keys() - rows.keys()
            for case in left[job_id]
            if isinstance(case.event, JobCancelRequested)
        ]
        if not cancels:
            return {}
        inserted = await self._store.insert_jobs([unheard_of(event, now) for event in cancels])
        return {one.row.job_id: one.row for one in inserted}

    def _tell(self, folded: Folded, checkpoint: Checkpoint | None) -> list[Message]:
        letters = letters_of(
            folded.row,
            folded.tells,
            answers=folded.answers,
            now=self._clock.now(),
            trace=self._trace(folded),
            rules=self._rules,
            checkpoint=checkpoint,
        )
        for case, ruling in folded.rulings:
            if isinstance(ruling, Parked):
                letters.append(_park(_came(case), ruling.reason, ruling.why))
        _say_if_dead(folded)
        return letters

    def _trace(self, folded: Folded) -> TraceContext:
        """The context of the last judgement."""
        row = folded.row
        last = TraceContext(row.traceparent, row.tracestate)
        for case, ruling in folded.rulings:
            if isinstance(ruling, Judgement):
                last = judged(self._telemetry, row, case.event, ruling.verdict, otherwise=last)
        return last


def _with_trees(cases: Iterable[Case]) -> list[JobCancelRequested]:
    return [
        case.event for case in cases if isinstance(case.event, JobCancelRequested) and case.event.data.tree
    ]


def _judge(row: JobRow, cases: Sequence[Case], at: Moment) -> Folded:
    """Fold; where the judge itself fails at a job, its events are parked and the others go on."""
    try:
        return fold(row, cases, at)
    except Exception as error:  # noqa: BLE001 - one job must not stop the others
        _log.exception("The judge failed: a bug.", action="observe.bug", job_id=str(row.job_id))
        parked = Parked(Reason.IMPOSSIBLE, f"the judge failed at it: {type(error).__name__}: {error}")
        return Folded(row, rulings=[(case, parked) for case in cases])


def _dead(judged: Iterable[Folded], applied: Set[UUID]) -> list[JobRow]:
    """The jobs that are dead by what was judged, or were so before: the second is a repeat of the first."""
    return [
        folded.row
        for folded in judged
        if Tell.DEAD in folded.tells and (folded.row.job_id in applied or not folded.saves)
    ]


def _unknown(cases: Iterable[Case]) -> list[Message]:
    return [
        _park(_came(case), Reason.UNKNOWN_JOB, f"no job {job_of(case.event)} is in the store")
        for case in cases
    ]


def _came(case: Case) -> DecodedEvent:
    return case.came or DecodedEvent(case.event, encode(case.event))


def _park(found: DecodedEvent, reason: Reason, detail: str) -> Message:
    return parked_event(found, STATUS_QUEUE.name, reason, detail)


def _say_parked(letters: Iterable[Message]) -> None:
    """One line for a batch, however many there are."""
    if not (parked := [letter.headers for letter in letters if letter.exchange == DEAD]):
        return
    _log.error(
        "Status events cannot be used and are parked.",
        action="observe.parked",
        events=len(parked),
        reasons=format_reason_counts(Counter(Reason(headers["warrener-reason"]) for headers in parked)),
        detail=parked[0]["warrener-detail"],
    )


def _say_if_dead(folded: Folded) -> None:
    row = folded.row
    if folded.saves and row.state is JobState.DEAD:
        _log.warning(
            "A job is dead.",
            action="observe.dead",
            job_id=str(row.job_id),
            job_type=row.job_type,
            attempts=row.attempt,
            error=row.error.message if row.error else None,
        )
