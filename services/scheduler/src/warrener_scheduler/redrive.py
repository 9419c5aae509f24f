"""Carry out redrives of dead letters, many at a time: one step at each look, by any scheduler.

A step is one save of the redrive and its dead letters, under the version that was claimed; only then its
requests are published. A crash in between leaves dead letters noted as requested without a job: half a minute
later the same request is published again, under the same id. So nothing is requested twice, and nothing is
forgotten.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from warrener_contracts import events
from warrener_contracts.codec import DecodedEvent
from warrener_contracts.commands import CARRIED_OUT, CommandResult
from warrener_contracts.messages import Message, build_message
from warrener_contracts.parking import park_event
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import SCHEDULER_COMMANDS
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import NO_CONTEXT, LinkTo, TraceContext, names
from warrener_scheduler.decisions.dead_letters import (
    assess,
    build_request,
    drop,
    mark_requested,
    release,
    resolve_outcome,
)
from warrener_scheduler.decisions.redrive import (
    PAGE_SIZE,
    RedrivePlan,
    apply_change,
    apply_moves,
    apply_plan,
    dead_letter_filter,
    new_redrive,
    plan_after_assessment,
    plan_next_step,
    remaining_capacity,
)
from warrener_scheduler.job_types import JobTypeCache, KnownQueues
from warrener_scheduler.ports import SchedulerPorts
from warrener_store.dead_letters.rows import (
    DeadLetter,
    DeadLetterFilter,
    DeadLetterState,
    DeadLetterTransition,
    RedriveKind,
    RedriveOutcome,
    RedriveRow,
    RedriveState,
)
from warrener_store.jobs.rows import JobRow

_log = get_logger("redrives")

_CLAIM_DURATION = timedelta(seconds=20)
_UNACCEPTED_AFTER = timedelta(seconds=30)
"""A request that no scheduler has accepted by then is published again."""
_CLAIM_LIMIT = 10
_MAX_CHANGE_ATTEMPTS = 20


class RedriveRunner:
    """Carries out redrives and drops of dead letters. Any number of schedulers may run one."""

    def __init__(self, ports: SchedulerPorts, queues: KnownQueues) -> None:
        self._ports, self._queues = ports, queues
        _, self._store, self._clock, self._telemetry, _ = ports
        self._dead_letters = ports.store.dead_letter_store
        self._job_types = JobTypeCache(ports.store, ports.clock)

    async def begin(
        self, event: events.JobRedriveRequested | events.JobDropRequested, _: DecodedEvent
    ) -> CommandResult:
        """Store a redrive for `run_once`; refuse one without dead letters. A repeat changes nothing."""
        row = new_redrive(event, self._clock.now())
        if not await self._dead_letters.redrives([row.redrive_id]):
            if refusal := await self._find_refusal(row, event.data.selection.job_ids):
                _log.warning("A redrive was refused.", action="redrives.refused", detail=refusal)
                return CommandResult(refusal=refusal)
            await self._dead_letters.save_redrive(row)
        return CARRIED_OUT

    async def _find_refusal(self, row: RedriveRow, job_ids: Sequence[UUID]) -> str | None:
        """Return why a redrive cannot begin: none of its dead letters is unresolved."""
        if await self._load_page(row, limit=1):
            return None
        if len(job_ids) == 1:
            job = (await self._store.jobs_by_id(job_ids)).get(job_ids[0])
            if job is None or job.state is not JobState.DEAD:
                state = "unknown" if job is None else job.state.value
                return f"expected a dead job, got one that is {state}: request it again instead"
        return (
            "expected unresolved dead letters, got none that meets the conditions: "
            "`warrener dead-letters list --all` shows resolved ones too"
        )

    async def change(self, event: events.RedriveChangeRequested, received: DecodedEvent) -> CommandResult:
        """Stop or resume a redrive, or refuse; park a command for an unknown one."""
        for _ in range(_MAX_CHANGE_ATTEMPTS):
            rows = await self._dead_letters.redrives([event.data.redrive_id])
            if not rows:
                return _park_unknown(event, received)
            try:
                row = apply_change(rows[0], event, self._clock.now())
            except ValueError as refusal:
                return CommandResult(refusal=str(refusal))
            if row is None or await self._dead_letters.save_redrive(row):
                return CARRIED_OUT
        raise TimeoutError(
            f"expected to change redrive {event.data.redrive_id}, its steps were faster each time"
        )

    async def run_once(self) -> None:
        """Make one step of each redrive that is due, and another if it can go on at once."""
        while True:
            now = self._clock.now()
            claimed = await self._dead_letters.claim_redrives(now, now + _CLAIM_DURATION, _CLAIM_LIMIT)
            if not claimed:
                return
            for row in claimed:
                await self._run_step(row)

    async def _run_step(self, row: RedriveRow) -> None:
        """Make one step. A failed one is repeated when its claim has run out; the other redrives go on."""
        steps = {RedriveKind.DROP: self._drop, RedriveKind.DRY_RUN: self._dry_run}
        try:
            await steps.get(row.kind, self._redrive)(row)
        except Exception:  # noqa: BLE001 - it is logged, and concerns this redrive alone
            _log.exception(
                "A step of a redrive failed.", action="redrives.failed", redrive_id=str(row.redrive_id)
            )

    # -- redriving ----------------------------------------------------------------------------------------

    async def _redrive(self, row: RedriveRow) -> None:
        """Count the jobs that have ended; then claim dead letters, request some, or stop."""
        now = self._clock.now()
        options = events.JobRedriveRequestedData.model_validate(row.request)
        successors = await self._dead_letters.redrive_outcomes(
            row.redrive_id, now - _UNACCEPTED_AFTER, PAGE_SIZE
        )
        moves = [resolve_outcome(successor) for successor in successors if successor.state is not None]
        again, requests = await self._republish_unaccepted(row, options, successors, now)
        moves += again
        before = await self._count_states(row)
        counts = apply_moves(before, moves, row)
        waiting = await self._dead_letters.list_dead_letters(_claimed_by(row))
        if row.state is not RedriveState.STOPPED and not waiting:
            page = await self._load_page(row, limit=remaining_capacity(options, counts))
            if page:
                judged = await self._assess(row, options, page, now)
                if await self._save(row, plan_after_assessment(row, judged), [*moves, *judged], now, before):
                    await self._ports.publish(requests)
                return
        plan = plan_next_step(row, options, counts, exhausted=not waiting, now=now)
        if len(successors) == PAGE_SIZE and not plan.request_count and plan.wait is not None:
            plan = replace(plan, wait=timedelta(0))  # more have ended than one page has
        if plan.state is RedriveState.STOPPED:
            moves += [release(dead_letter) for dead_letter in waiting]
        chosen, more = await self._build_requests(row, options, waiting[: plan.request_count], now)
        if await self._save(row, plan, [*moves, *chosen], now, before):
            await self._ports.publish([*requests, *more])

    async def _republish_unaccepted(
        self,
        row: RedriveRow,
        options: events.JobRedriveRequestedData,
        successors: Sequence[RedriveOutcome],
        now: datetime,
    ) -> tuple[list[DeadLetterTransition], list[Message]]:
        """Publish requests that no scheduler has accepted: the message was lost, or is refused by now."""
        unaccepted = [successor.dead_letter for successor in successors if successor.state is None]
        rejected = [
            move
            for move in await self._assess(row, options, unaccepted, now)
            if move.dead_letter.state is DeadLetterState.REJECTED
        ]
        rejected_ids = {move.dead_letter.job_id for move in rejected}
        left = [dead_letter for dead_letter in unaccepted if dead_letter.job_id not in rejected_ids]
        moves, requests = await self._build_requests(row, options, left, now)
        return [*rejected, *moves], requests

    async def _build_requests(
        self,
        row: RedriveRow,
        options: events.JobRedriveRequestedData,
        dead_letters: Sequence[DeadLetter],
        now: datetime,
    ) -> tuple[list[DeadLetterTransition], list[Message]]:
        if not dead_letters:
            return [], []
        dead = await self._store.jobs_by_id([dead_letter.job_id for dead_letter in dead_letters])
        moves = [mark_requested(each, now) for each in dead_letters if each.job_id in dead]
        messages: list[Message] = []
        for each in (move.dead_letter for move in moves):
            trace = self._begin_trace(each, dead[each.job_id], now)
            request = build_request(each, dead[each.job_id], options, row.redrive_id, now, trace=trace)
            messages.append(build_message(request))
        return moves, messages

    def _begin_trace(self, dead_letter: DeadLetter, dead: JobRow, now: datetime) -> TraceContext:
        """Begin the trace of a redrive, with a link to that of the dead job; return its context."""
        if not self._telemetry.records(None):
            return NO_CONTEXT
        context = TraceContext(dead.traceparent, dead.tracestate)
        return self._telemetry.record(
            names.REDRIVE.name(dead.job_type),
            now,
            now,
            kind=names.REDRIVE.kind,
            parent=None,
            links=[LinkTo(context, "redriven")] if dead.traceparent else [],
            attributes={
                **names.REDRIVE.constants,
                names.JOB_ID: str(dead_letter.redriven_as),
                names.JOB_TYPE: dead.job_type,
                names.REDRIVEN_JOB_ID: str(dead.job_id),
                names.MESSAGING_ROUTING_KEY: dead.job_type,
            },
        )

    # -- assessing ----------------------------------------------------------------------------------------

    async def _dry_run(self, row: RedriveRow) -> None:
        """Assess and count a page, and change nothing."""
        now = self._clock.now()
        options = events.JobRedriveRequestedData.model_validate(row.request)
        page = await self._load_page(row, limit=remaining_capacity(options, row.counts), after=row.after)
        judged = await self._assess(row, options, page, now)
        counts = Counter(row.counts)
        counts.update(move.dead_letter.state.value for move in judged)
        rejected = [move.dead_letter for move in judged if move.dead_letter.state is DeadLetterState.REJECTED]
        why = row.stop_reason or "".join(f"{each.job_id}: {each.note}" for each in rejected[:1])
        last = (page[-1].died_at, page[-1].job_id) if page and row.state is RedriveState.ROLLING else None
        plan = RedrivePlan(row.state, wait=timedelta(0)) if last else RedrivePlan(RedriveState.DONE)
        if row.state is RedriveState.STOPPED:
            plan = RedrivePlan(row.state)
        await self._save(replace(row, stop_reason=why, after=last), plan, (), now, counts)

    async def _assess(
        self,
        row: RedriveRow,
        options: events.JobRedriveRequestedData,
        dead_letters: Sequence[DeadLetter],
        now: datetime,
    ) -> list[DeadLetterTransition]:
        """Decide which of these dead letters may be requested, and why the others may not."""
        if not dead_letters:
            return []
        dead = await self._store.jobs_by_id([dead_letter.job_id for dead_letter in dead_letters])
        types = {job.job_type for job in dead.values()}
        known = await self._job_types.get_many(types)
        unknown = await self._queues.find_unknown({options.queue or job.queue for job in dead.values()})
        hashes = {job.request_hash for job in dead.values()}
        since = min(dead_letter.died_at for dead_letter in dead_letters)
        found = (
            []
            if options.even_if_succeeded
            else await self._dead_letters.succeeded_since(hashes, types, since)
        )
        return [
            assess(
                dead_letter,
                job := dead[dead_letter.job_id],
                options,
                known=known.get(job.job_type),
                unknown_queues=unknown,
                successes=found,
                redrive_id=row.redrive_id,
                now=now,
            )
            for dead_letter in dead_letters
        ]

    # -- dropping -----------------------------------------------------------------------------------------

    async def _drop(self, row: RedriveRow) -> None:
        now = self._clock.now()
        stopped = row.state is RedriveState.STOPPED
        page = [] if stopped else await self._load_page(row, limit=PAGE_SIZE)
        moves = [drop(dead_letter, row.redrive_id, row.requested_by, row.reason) for dead_letter in page]
        plan = RedrivePlan(row.state if stopped else RedriveState.DONE)
        if page:
            plan = RedrivePlan(row.state, wait=timedelta(0))
        await self._save(row, plan, moves, now, await self._count_states(row))

    # -- reading and saving -------------------------------------------------------------------------------

    async def _load_page(
        self, row: RedriveRow, *, limit: int, after: tuple[datetime, UUID] | None = None
    ) -> list[DeadLetter]:
        if limit < 1:
            return []
        not_by = None if row.kind is RedriveKind.DRY_RUN else row.redrive_id
        return await self._dead_letters.list_dead_letters(
            dead_letter_filter(row, limit=limit, after=after, not_by=not_by)
        )

    async def _count_states(self, row: RedriveRow) -> Mapping[str, int]:
        which = DeadLetterFilter(states=(), redrive_id=row.redrive_id)
        counts = await self._dead_letters.count_dead_letters(which)
        return {state.value: count for state, count in counts.items()}

    async def _save(
        self,
        row: RedriveRow,
        plan: RedrivePlan,
        moves: Sequence[DeadLetterTransition],
        now: datetime,
        before: Mapping[str, int],
    ) -> bool:
        """Save a step. False if the claim was lost: the decision is then out of date."""
        saved = apply_plan(row, plan, moves, before, now)
        is_saved = await self._dead_letters.save_redrive(saved, moves)
        if is_saved and saved.state is not row.state:
            log = _log.warning if saved.state is RedriveState.STOPPED else _log.info
            log(
                f"A redrive over dead letters is {saved.state.value}.",
                action=f"redrives.{saved.state.value}",
                redrive_id=str(saved.redrive_id),
                kind=saved.kind.value,
                why=saved.stop_reason,
                counts=dict(saved.counts),
            )
        return is_saved


def _park_unknown(event: events.RedriveChangeRequested, received: DecodedEvent) -> CommandResult:
    detail = (
        f"expected the id of a redrive, got {event.data.redrive_id}: see `warrener dead-letters redrives`"
    )
    parked = park_event(received, SCHEDULER_COMMANDS.name, events.Reason.UNKNOWN_JOB, detail)
    return CommandResult([parked], refusal=detail)


def _claimed_by(row: RedriveRow) -> DeadLetterFilter:
    return DeadLetterFilter(
        states=(DeadLetterState.CLAIMED,), redrive_id=row.redrive_id, oldest_first=True, limit=2 * PAGE_SIZE
    )
