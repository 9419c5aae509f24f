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
from warrener_contracts.events import RedriveChangeRequested, JobRedriveRequestedData, JobRequested, Reason
from warrener_contracts.messages import Message, build_message
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler import redriving
from warrener_scheduler.answers import parked_event
from warrener_scheduler.campaign_course import PAGE, Course, after_moves, course, room, settled
from warrener_scheduler.campaign_orders import Order, campaign_of, changed, noted, selected, target
from warrener_scheduler.dispatch_letters import SOURCE
from warrener_scheduler.job_types import JobTypes
from warrener_scheduler.publishing import publish
from warrener_store.dead_letters import (
    CampaignKind,
    CampaignRow,
    CampaignState,
    RedriveOutcome,
    JournalEntry,
    DeadLetterFilter,
    DeadLetterTransition,
)
from warrener_store.port import StateStore
from warrener_store.rows import DeadLetter, DeadLetterState

_log = get_logger("campaigns")

_CLAIM = timedelta(seconds=20)
_UNHEARD = timedelta(seconds=30)  # a request that no scheduler has accepted by then is published again
_AT_ONCE = 10
_MOST_ROUNDS = 20


class Campaigns:
    """The verb that carries out what people ask of dead letters. Any number of schedulers may run it."""

    def __init__(self, bus: Bus, store: StateStore, clock: Clock) -> None:
        self._bus = bus
        self._store = store
        self._letters = store.dead_letter_store
        self._clock = clock
        self._job_types = JobTypes(store, clock)

    async def carry_out(self, orders: Iterable[tuple[Order, DecodedEvent]]) -> list[Message]:
        """Keep what is asked for; the looks do it. What cannot be meant is parked."""
        parked: list[Message] = []
        for event, came in orders:
            if not isinstance(event, RedriveChangeRequested):
                await self._letters.put_campaign(campaign_of(event, self._clock.now()))
            elif not await self._change(event):
                detail = f"expected the id of a campaign, got {target(event)}: see `warrener dead campaigns`"
                parked.append(parked_event(came, Reason.UNKNOWN_JOB, detail))
        return parked

    async def _change(self, event: RedriveChangeRequested) -> bool:
        """Whether there is such a campaign. Again where a step was faster."""
        for _ in range(_MOST_ROUNDS):
            rows = await self._letters.campaigns([target(event)])
            if not rows:
                return False
            row = changed(rows[0], event, self._clock.now())
            if row is None or await self._letters.save_campaign(row):
                return True
        raise TimeoutError(f"expected to change campaign {target(event)}, its steps were faster each time")

    async def look(self) -> None:
        """One step of each campaign that is due, and another where it can go on at once."""
        while claimed := await self._claim():
            for row in claimed:
                await self._step_alone(row)

    async def _claim(self) -> list[CampaignRow]:
        now = self._clock.now()
        return await self._letters.claim_campaigns(now, now + _CLAIM, _AT_ONCE)

    async def _step_alone(self, row: CampaignRow) -> None:
        """A step that fails is made again when its claim has run out; the other campaigns go on meanwhile."""
        try:
            await self._step(row)
        except Exception:  # noqa: BLE001 - whatever it is, it is told, and it is this campaign's alone
            _log.exception(
                "A step of a campaign failed.", action="campaigns.failed", campaign_id=str(row.campaign_id)
            )

    async def _step(self, row: CampaignRow) -> None:
        if row.kind is CampaignKind.DROP:
            await self._drop(row)
        elif row.kind is CampaignKind.DRY_RUN:
            await self._check(row)
        else:
            await self._redrive(row)

    # -- asking again -------------------------------------------------------------------------------------

    async def _redrive(self, row: CampaignRow) -> None:
        """What has ended since is counted; then some are taken, or asked for, or nothing more is done."""
        now = self._clock.now()
        order = JobRedriveRequestedData.model_validate(row.told)
        heirs = await self._letters.redrive_outcomes(row.campaign_id, now - _UNHEARD, PAGE)
        moves = [settled(heir) for heir in heirs if heir.state is not None]
        again, requests = await self._ask_again(row, order, heirs, now)
        moves += again
        before = await self._counts(row)
        counts = after_moves(before, moves, row)
        waiting = await self._letters.list_dead_letters(_taken_by(row))
        if row.state is not CampaignState.STOPPED and not waiting:
            page = await self._page(row, limit=room(order, counts))
            if page:
                judged = await self._assess(row, order, page, now)
                if await self._save(row, _after_judging(row, judged), [*moves, *judged], now, before):
                    await publish(self._bus, requests, self._clock)
                return
        plan = course(row, order, counts, exhausted=not waiting, now=now)
        if len(heirs) == PAGE and not plan.ask and plan.wait is not None:
            plan = replace(plan, wait=timedelta(0))  # more have ended than were looked at
        if plan.state is CampaignState.STOPPED:
            moves += [redriving.released(letter) for letter in waiting]
        chosen, more = await self._requests(row, order, waiting[: plan.ask], now)
        if await self._save(row, plan, [*moves, *chosen], now, before):
            await publish(self._bus, [*requests, *more], self._clock)

    async def _ask_again(
        self, row: CampaignRow, order: JobRedriveRequestedData, heirs: Sequence[RedriveOutcome], now: datetime
    ) -> tuple[list[DeadLetterTransition], list[Message]]:
        """Requests of which no scheduler has heard: the word of them was lost, or they are refused by now."""
        unheard = [heir.dead_letter for heir in heirs if heir.state is None]
        refused = [
            move
            for move in await self._assess(row, order, unheard, now)
            if move.dead_letter.state is DeadLetterState.REFUSED
        ]
        hopeless = {move.dead_letter.job_id for move in refused}
        left = [letter for letter in unheard if letter.job_id not in hopeless]
        moves, requests = await self._requests(row, order, left, now)
        return [*refused, *moves], requests

    async def _requests(
        self, row: CampaignRow, order: JobRedriveRequestedData, letters: Sequence[DeadLetter], now: datetime
    ) -> tuple[list[DeadLetterTransition], list[Message]]:
        if not letters:
            return [], []
        dead = await self._store.jobs_by_id([letter.job_id for letter in letters])
        moves = [redriving.asked(letter, now) for letter in letters if letter.job_id in dead]
        requests = [
            redriving.request_of(move.dead_letter, dead[move.dead_letter.job_id], order, row.campaign_id, now)
            for move in moves
        ]
        return moves, [build_message(request) for request in requests]

    # -- looking before it is asked for -------------------------------------------------------------------

    async def _check(self, row: CampaignRow) -> None:
        """A dry run: a page is judged and counted, and nothing is touched."""
        now = self._clock.now()
        order = JobRedriveRequestedData.model_validate(row.told)
        page = await self._page(row, limit=room(order, row.counts), after=row.after)
        judged = await self._assess(row, order, page, now)
        counts = dict(row.counts)
        for move in judged:
            counts[move.dead_letter.state.value] = counts.get(move.dead_letter.state.value, 0) + 1
        refused = [move.dead_letter for move in judged if move.dead_letter.state is DeadLetterState.REFUSED]
        why = row.why or "".join(f"{letter.job_id}: {letter.note}" for letter in refused[:1])
        last = (page[-1].died_at, page[-1].job_id) if page and row.state is CampaignState.ROLLING else None
        plan = Course(row.state, wait=timedelta(0)) if last else Course(CampaignState.DONE)
        if row.state is CampaignState.STOPPED:
            plan = Course(row.state)
        await self._save(replace(row, why=why, after=last), plan, (), now, counts)

    async def _assess(
        self,
        row: CampaignRow,
        order: JobRedriveRequestedData,
        letters: Sequence[DeadLetter],
        now: datetime,
    ) -> list[DeadLetterTransition]:
        """Which of these letters may be asked for, and why the others may not."""
        if not letters:
            return []
        dead = await self._store.jobs_by_id([letter.job_id for letter in letters])
        types = {job.job_type for job in dead.values()}
        known = await self._job_types.named(types)
        found = (
            []
            if order.even_if_succeeded
            else await self._letters.succeeded_since(
                {job.fingerprint for job in dead.values()}, types, min(letter.died_at for letter in letters)
            )
        )
        moves: list[DeadLetterTransition] = []
        for letter in letters:
            job = dead[letter.job_id]
            if other := redriving.overtaken_by(letter, job, found):
                moves.append(redriving.overtaken(letter, row.campaign_id, other))
                continue
            request: JobRequested = redriving.request_of(letter, job, order, row.campaign_id, now)
            why = redriving.refusal(request, known.get(job.job_type), now)
            moves.append(
                redriving.taken(letter, row.campaign_id)
                if why is None
                else redriving.refused(letter, row.campaign_id, why)
            )
        return moves

    # -- dropping -----------------------------------------------------------------------------------------

    async def _drop(self, row: CampaignRow) -> None:
        now = self._clock.now()
        stopped = row.state is CampaignState.STOPPED
        page = [] if stopped else await self._page(row, limit=PAGE)
        moves = [redriving.dropped(letter, row.campaign_id, row.asked_by, row.reason) for letter in page]
        plan = Course(CampaignState.DONE) if not page else Course(row.state, wait=timedelta(0))
        await self._save(row, Course(row.state) if stopped else plan, moves, now, await self._counts(row))

    # -- keeping ------------------------------------------------------------------------------------------

    async def _page(
        self, row: CampaignRow, *, limit: int, after: tuple[datetime, UUID] | None = None
    ) -> list[DeadLetter]:
        if limit < 1:
            return []
        not_by = None if row.kind is CampaignKind.DRY_RUN else row.campaign_id
        return await self._letters.list_dead_letters(selected(row, limit=limit, after=after, not_by=not_by))

    async def _counts(self, row: CampaignRow) -> Mapping[str, int]:
        which = DeadLetterFilter(states=(), campaign_id=row.campaign_id)
        return {state.value: letters for state, letters in (await self._letters.count_dead_letters(which)).items()}

    async def _save(
        self,
        row: CampaignRow,
        plan: Course,
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
            counts=after_moves(before, moves, row),
            wake_at=None if plan.wait is None else now + plan.wait,
            updated_at=now if turned or moves else row.updated_at,
            finished_at=now if plan.wait is None else None,
        )
        if turned:
            what = f"{plan.state.value}: {plan.why}" if plan.why else plan.state.value
            made = noted(made, JournalEntry(at=now, by=SOURCE, what=what))
        counted = await self._letters.save_campaign(made, moves)
        if counted and turned:
            _say(made)
        return counted


def _after_judging(row: CampaignRow, judged: Sequence[DeadLetterTransition]) -> Course:
    """Go on, unless nothing of the first page is as the job type wants it."""
    first = judged[0].dead_letter
    if row.state is CampaignState.CANARY and all(move.dead_letter.state is DeadLetterState.REFUSED for move in judged):
        why = f"all of the first {len(judged)} were refused; {first.job_id}: {first.note}"
        return Course(CampaignState.STOPPED, why=why, wait=timedelta(0))
    return Course(row.state, wait=timedelta(0))


def _taken_by(row: CampaignRow) -> DeadLetterFilter:
    return DeadLetterFilter(
        states=(DeadLetterState.CLAIMED,), campaign_id=row.campaign_id, oldest_first=True, limit=2 * PAGE
    )


def _say(row: CampaignRow) -> None:
    say = _log.warning if row.state is CampaignState.STOPPED else _log.info
    say(
        f"A campaign over dead letters is {row.state.value}.",
        action=f"campaigns.{row.state.value}",
        campaign_id=str(row.campaign_id),
        kind=row.kind.value,
        why=row.why,
        counts=dict(row.counts),
    )
