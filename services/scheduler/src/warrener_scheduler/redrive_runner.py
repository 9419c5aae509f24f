"""campaigns: dead letters are dealt with many at a time, a step at each look, whoever carries the step out.

A step is one save of the campaign and its letters, under the version that was claimed; only then are requests
published. Killed in between, the letters are noted as asked for and no job is there: half a minute later the
same request, under the same id, is published again. So nothing is asked for twice, and nothing is forgotten.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from warrener_contracts.codec import DecodedEvent
from warrener_contracts.events import JobRedriveRequestedData, JobRequested, Reason, RedriveChangeRequested
from warrener_contracts.messages import Message, build_message
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler import redrive_decisions
from warrener_scheduler.dispatch_messages import SOURCE
from warrener_scheduler.job_types import JobTypeCache
from warrener_scheduler.publishing import publish
from warrener_scheduler.redrive_commands import (
    RedriveCommand,
    apply_change,
    dead_letter_filter,
    new_campaign,
    target_campaign_id,
    with_journal_entry,
)
from warrener_scheduler.redrive_progress import (
    PAGE_SIZE,
    RedrivePlan,
    apply_moves,
    plan_next_step,
    remaining_capacity,
    resolve_outcome,
)
from warrener_scheduler.replies import parked_event
from warrener_store.dead_letters.rows import (
    CampaignKind,
    CampaignRow,
    CampaignState,
    DeadLetter,
    DeadLetterFilter,
    DeadLetterState,
    DeadLetterTransition,
    JournalEntry,
    RedriveOutcome,
)
from warrener_store.store import StateStore

_log = get_logger("campaigns")

_CLAIM_DURATION = timedelta(seconds=20)
_UNACCEPTED_AFTER = timedelta(
    seconds=30
)  # a request that no scheduler has accepted by then is published again
_CLAIM_LIMIT = 10
_MAX_CHANGE_ATTEMPTS = 20


class RedriveRunner:
    """The verb that carries out what people ask of dead letters. Any number of schedulers may run it."""

    def __init__(self, bus: Bus, store: StateStore, clock: Clock) -> None:
        self._bus = bus
        self._store = store
        self._dead_letters = store.dead_letter_store
        self._clock = clock
        self._job_types = JobTypeCache(store, clock)

    async def carry_out(self, commands: Iterable[tuple[RedriveCommand, DecodedEvent]]) -> list[Message]:
        """Keep what is asked for; the looks do it. What cannot be meant is parked."""
        parked: list[Message] = []
        for event, received in commands:
            if not isinstance(event, RedriveChangeRequested):
                await self._dead_letters.put_campaign(new_campaign(event, self._clock.now()))
            elif not await self._apply_change(event):
                detail = (
                    f"expected the id of a campaign, got {target_campaign_id(event)}: see "
                    "`warrener dead campaigns`"
                )
                parked.append(parked_event(received, Reason.UNKNOWN_JOB, detail))
        return parked

    async def _apply_change(self, event: RedriveChangeRequested) -> bool:
        """Whether there is such a campaign. Again where a step was faster."""
        for _ in range(_MAX_CHANGE_ATTEMPTS):
            rows = await self._dead_letters.campaigns([target_campaign_id(event)])
            if not rows:
                return False
            row = apply_change(rows[0], event, self._clock.now())
            if row is None or await self._dead_letters.save_campaign(row):
                return True
        raise TimeoutError(
            f"expected to change campaign {target_campaign_id(event)}, its steps were faster each time"
        )

    async def run_once(self) -> None:
        """One step of each campaign that is due, and another where it can go on at once."""
        while claimed := await self._claim():
            for row in claimed:
                await self._run_step_safely(row)

    async def _claim(self) -> list[CampaignRow]:
        now = self._clock.now()
        return await self._dead_letters.claim_campaigns(now, now + _CLAIM_DURATION, _CLAIM_LIMIT)

    async def _run_step_safely(self, row: CampaignRow) -> None:
        """A step that fails is made again when its claim has run out; the other campaigns go on meanwhile."""
        try:
            await self._run_step(row)
        except Exception:  # noqa: BLE001 - whatever it is, it is told, and it is this campaign's alone
            _log.exception(
                "A step of a campaign failed.", action="campaigns.failed", campaign_id=str(row.campaign_id)
            )

    async def _run_step(self, row: CampaignRow) -> None:
        if row.kind is CampaignKind.DROP:
            await self._drop(row)
        elif row.kind is CampaignKind.DRY_RUN:
            await self._dry_run(row)
        else:
            await self._redrive(row)

    # -- asking again -------------------------------------------------------------------------------------

    async def _redrive(self, row: CampaignRow) -> None:
        """What has ended since is counted; then some are taken, or asked for, or nothing more is done."""
        now = self._clock.now()
        options = JobRedriveRequestedData.model_validate(row.told)
        heirs = await self._dead_letters.redrive_outcomes(row.campaign_id, now - _UNACCEPTED_AFTER, PAGE_SIZE)
        moves = [resolve_outcome(heir) for heir in heirs if heir.state is not None]
        again, requests = await self._republish_unaccepted(row, options, heirs, now)
        moves += again
        before = await self._count_states(row)
        counts = apply_moves(before, moves, row)
        waiting = await self._dead_letters.list_dead_letters(_claimed_by(row))
        if row.state is not CampaignState.STOPPED and not waiting:
            page = await self._load_page(row, limit=remaining_capacity(options, counts))
            if page:
                judged = await self._assess(row, options, page, now)
                if await self._save(row, _plan_after_assessment(row, judged), [*moves, *judged], now, before):
                    await publish(self._bus, requests, self._clock)
                return
        plan = plan_next_step(row, options, counts, exhausted=not waiting, now=now)
        if len(heirs) == PAGE_SIZE and not plan.request_count and plan.wait is not None:
            plan = replace(plan, wait=timedelta(0))  # more have ended than were looked at
        if plan.state is CampaignState.STOPPED:
            moves += [redrive_decisions.release(dead_letter) for dead_letter in waiting]
        chosen, more = await self._build_requests(row, options, waiting[: plan.request_count], now)
        if await self._save(row, plan, [*moves, *chosen], now, before):
            await publish(self._bus, [*requests, *more], self._clock)

    async def _republish_unaccepted(
        self,
        row: CampaignRow,
        options: JobRedriveRequestedData,
        heirs: Sequence[RedriveOutcome],
        now: datetime,
    ) -> tuple[list[DeadLetterTransition], list[Message]]:
        """Requests of which no scheduler has heard: the word of them was lost, or they are refused by now."""
        unaccepted = [heir.dead_letter for heir in heirs if heir.state is None]
        refused = [
            move
            for move in await self._assess(row, options, unaccepted, now)
            if move.dead_letter.state is DeadLetterState.REFUSED
        ]
        refused_ids = {move.dead_letter.job_id for move in refused}
        left = [dead_letter for dead_letter in unaccepted if dead_letter.job_id not in refused_ids]
        moves, requests = await self._build_requests(row, options, left, now)
        return [*refused, *moves], requests

    async def _build_requests(
        self,
        row: CampaignRow,
        options: JobRedriveRequestedData,
        dead_letters: Sequence[DeadLetter],
        now: datetime,
    ) -> tuple[list[DeadLetterTransition], list[Message]]:
        if not dead_letters:
            return [], []
        dead = await self._store.jobs_by_id([dead_letter.job_id for dead_letter in dead_letters])
        moves = [
            redrive_decisions.mark_requested(dead_letter, now)
            for dead_letter in dead_letters
            if dead_letter.job_id in dead
        ]
        requests = [
            redrive_decisions.build_request(
                move.dead_letter, dead[move.dead_letter.job_id], options, row.campaign_id, now
            )
            for move in moves
        ]
        return moves, [build_message(request) for request in requests]

    # -- looking before it is asked for -------------------------------------------------------------------

    async def _dry_run(self, row: CampaignRow) -> None:
        """A dry run: a page is judged and counted, and nothing is touched."""
        now = self._clock.now()
        options = JobRedriveRequestedData.model_validate(row.told)
        page = await self._load_page(row, limit=remaining_capacity(options, row.counts), after=row.after)
        judged = await self._assess(row, options, page, now)
        counts = dict(row.counts)
        for move in judged:
            counts[move.dead_letter.state.value] = counts.get(move.dead_letter.state.value, 0) + 1
        refused = [move.dead_letter for move in judged if move.dead_letter.state is DeadLetterState.REFUSED]
        why = row.why or "".join(f"{dead_letter.job_id}: {dead_letter.note}" for dead_letter in refused[:1])
        last = (page[-1].died_at, page[-1].job_id) if page and row.state is CampaignState.ROLLING else None
        plan = RedrivePlan(row.state, wait=timedelta(0)) if last else RedrivePlan(CampaignState.DONE)
        if row.state is CampaignState.STOPPED:
            plan = RedrivePlan(row.state)
        await self._save(replace(row, why=why, after=last), plan, (), now, counts)

    async def _assess(
        self,
        row: CampaignRow,
        options: JobRedriveRequestedData,
        dead_letters: Sequence[DeadLetter],
        now: datetime,
    ) -> list[DeadLetterTransition]:
        """Which of these letters may be asked for, and why the others may not."""
        if not dead_letters:
            return []
        dead = await self._store.jobs_by_id([dead_letter.job_id for dead_letter in dead_letters])
        types = {job.job_type for job in dead.values()}
        known = await self._job_types.get_many(types)
        found = (
            []
            if options.even_if_succeeded
            else await self._dead_letters.succeeded_since(
                {job.fingerprint for job in dead.values()},
                types,
                min(dead_letter.died_at for dead_letter in dead_letters),
            )
        )
        moves: list[DeadLetterTransition] = []
        for dead_letter in dead_letters:
            job = dead[dead_letter.job_id]
            if other := redrive_decisions.find_later_success(dead_letter, job, found):
                moves.append(redrive_decisions.mark_already_succeeded(dead_letter, row.campaign_id, other))
                continue
            request: JobRequested = redrive_decisions.build_request(
                dead_letter, job, options, row.campaign_id, now
            )
            why = redrive_decisions.refusal_reason(request, known.get(job.job_type), now)
            moves.append(
                redrive_decisions.claim(dead_letter, row.campaign_id)
                if why is None
                else redrive_decisions.refuse(dead_letter, row.campaign_id, why)
            )
        return moves

    # -- dropping -----------------------------------------------------------------------------------------

    async def _drop(self, row: CampaignRow) -> None:
        now = self._clock.now()
        stopped = row.state is CampaignState.STOPPED
        page = [] if stopped else await self._load_page(row, limit=PAGE_SIZE)
        moves = [
            redrive_decisions.drop(dead_letter, row.campaign_id, row.asked_by, row.reason)
            for dead_letter in page
        ]
        plan = RedrivePlan(CampaignState.DONE) if not page else RedrivePlan(row.state, wait=timedelta(0))
        await self._save(
            row, RedrivePlan(row.state) if stopped else plan, moves, now, await self._count_states(row)
        )

    # -- keeping ------------------------------------------------------------------------------------------

    async def _load_page(
        self, row: CampaignRow, *, limit: int, after: tuple[datetime, UUID] | None = None
    ) -> list[DeadLetter]:
        if limit < 1:
            return []
        not_by = None if row.kind is CampaignKind.DRY_RUN else row.campaign_id
        return await self._dead_letters.list_dead_letters(
            dead_letter_filter(row, limit=limit, after=after, not_by=not_by)
        )

    async def _count_states(self, row: CampaignRow) -> Mapping[str, int]:
        which = DeadLetterFilter(states=(), campaign_id=row.campaign_id)
        return {
            state.value: count
            for state, count in (await self._dead_letters.count_dead_letters(which)).items()
        }

    async def _save(
        self,
        row: CampaignRow,
        plan: RedrivePlan,
        moves: Sequence[DeadLetterTransition],
        now: datetime,
        before: Mapping[str, int],
    ) -> bool:
        """Whether it counted: whoever has lost its claim has decided on what is past."""
        turned = plan.state is not row.state
        made = replace(
            row,
            version=row.version + 1,
            state=plan.state,
            why=plan.why if turned and plan.state is CampaignState.STOPPED else row.why,
            counts=apply_moves(before, moves, row),
            wake_at=None if plan.wait is None else now + plan.wait,
            updated_at=now if turned or moves else row.updated_at,
            finished_at=now if plan.wait is None else None,
        )
        if turned:
            what = f"{plan.state.value}: {plan.why}" if plan.why else plan.state.value
            made = with_journal_entry(made, JournalEntry(at=now, by=SOURCE, what=what))
        counted = await self._dead_letters.save_campaign(made, moves)
        if counted and turned:
            _log_transition(made)
        return counted


def _plan_after_assessment(row: CampaignRow, judged: Sequence[DeadLetterTransition]) -> RedrivePlan:
    """Go on, unless nothing of the first page is as the job type wants it."""
    first = judged[0].dead_letter
    if row.state is CampaignState.CANARY and all(
        move.dead_letter.state is DeadLetterState.REFUSED for move in judged
    ):
        why = f"all of the first {len(judged)} were refused; {first.job_id}: {first.note}"
        return RedrivePlan(CampaignState.STOPPED, why=why, wait=timedelta(0))
    return RedrivePlan(row.state, wait=timedelta(0))


def _claimed_by(row: CampaignRow) -> DeadLetterFilter:
    return DeadLetterFilter(
        states=(DeadLetterState.CLAIMED,), campaign_id=row.campaign_id, oldest_first=True, limit=2 * PAGE_SIZE
    )


def _log_transition(row: CampaignRow) -> None:
    log = _log.warning if row.state is CampaignState.STOPPED else _log.info
    log(
        f"A campaign over dead letters is {row.state.value}.",
        action=f"campaigns.{row.state.value}",
        campaign_id=str(row.campaign_id),
        kind=row.kind.value,
        why=row.why,
        counts=dict(row.counts),
    )
