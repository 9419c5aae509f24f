"""Make the next turns of suspended workflows, and carry out their ends.

A turn: read → decide → keep its answers → save the job as queued → publish the dispatch with the journal as
it is stored. Any number of supervisors may make the same turn, and each may die anywhere. The first one that
keeps answers determines them, and the save decides who publishes. A dispatch that was not published is found
by the comparison with its queue (`redispatch`).

Every change of a job makes its version grow. So a decision is saved only if nothing has happened since the
job was read, and what happens before that, such as the end of a child, is in the store before the job is
woken and read again (`wake`). One of the two sees the other.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from warrener_contracts.commands import CARRIED_OUT, CommandResult
from warrener_contracts.events import (
    MAX_ANSWER,
    MAX_MEMBER_FAILURES,
    MAX_MEMBERS,
    Answer,
    Call,
    HeldAction,
    JobContinueRequested,
    Suspension,
)
from warrener_contracts.journals import all_calls, is_retry, open_calls
from warrener_contracts.messages import Message, build_message, cancel_behind_reports
from warrener_contracts.state_machine import JobState
from warrener_runtime.backoff import is_outage
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import TraceContext
from warrener_store.jobs import views
from warrener_store.jobs.rows import JobRow, Save, evolve
from warrener_store.jobs.views import END_REASON, CancelledTree
from warrener_store.workflows.rows import (
    ChildStatus,
    MemberOf,
    StoredTurn,
    TurnRow,
    WaitKind,
    WaitRow,
    arguments_of,
    journal_json,
    member_ids,
    open_turns,
)
from warrener_supervisor.decisions import suspensions, workflow_end, workflow_retries, workflow_turns
from warrener_supervisor.decisions.judge import JobBatch
from warrener_supervisor.effects import (
    JOURNALS_AT_ONCE,
    Contended,
    SupervisorPorts,
    divide,
    keep_unpublished,
    publish_turns,
    unreadable_journal,
)
from warrener_supervisor.escalation.incident_reporter import IncidentReporter
from warrener_supervisor.limits import SlotKeeper
from warrener_supervisor.metrics import SupervisorMetrics
from warrener_supervisor.notifications import Resumption, dispatch_message, render_messages
from warrener_supervisor.trace_spans import JobSpans
from warrener_supervisor.workflow_pages import answer_pages, load_pages

_log = get_logger("workflows")

_SOON = timedelta(seconds=2)
"""Time until what wakes nobody is stored, such as the cancel of a job that is not there."""
_KNOWN = timedelta(hours=1)  # a signal that was received is, at least; then a repeat is another one
_FIRST_PAUSE = timedelta(seconds=1)
_ON_ITS_WAY, _MAX_MISSED = timedelta(seconds=30), 1_000
_NO_ARGUMENTS = (
    "expected the report of its last turn with the arguments of the next generation, got none; requeue the "
    "report if `warrener parked` lists it, or cancel the workflow"
)
_OFTEN = timedelta(seconds=10)  # while jobs of a map are cancelled, of which some may never have come
_LAST_MEMBERS = 4  # of a batch, which are looked at before the others
_AT_ONCE = 50  # workflows that are looked at before a message is acknowledged; the others are due
_MAX_UNWRITTEN = 1_000  # waits
_MAX_ROUNDS = 20  # others change the same jobs meanwhile; each round at least one of us gets on


Member = tuple[UUID, str]
"""The parent and the `member_of` of a job of a map."""
Batch = tuple[UUID, str, int]
"""The workflow, the id and the size of a call of a map."""


class TurnMaker:
    """Looks at suspended workflows: those that are due, and those that something has woken."""

    def __init__(
        self,
        ports: SupervisorPorts,
        *,
        spans: JobSpans,
        reporter: IncidentReporter,
        metrics: SupervisorMetrics,
        slots: SlotKeeper,
    ) -> None:
        self._ports, self._slots = ports, slots
        _, self._store, self._clock, self._timings = ports
        self._spans, self._reporter, self._metrics = spans, reporter, metrics
        self._pauses: dict[UUID, timedelta] = {}
        self._waits: dict[UUID, WaitRow | None] = {}  # not written yet; None: to be dropped
        self._missed: dict[UUID, datetime] = {}  # since when suspensions were not there that were judged

    async def run_once(self) -> None:
        """Make the turns of all workflows that are due."""
        store, clock, claim = self._store, self._clock, self._timings.claim
        await self._write_waits()
        while rows := await store.claim_due(
            [JobState.SUSPENDED], now := clock.now(), now + claim, JOURNALS_AT_ONCE
        ):
            by_id = {row.job_id: row for row in rows}
            for some in await divide(store, by_id):
                await self._look_at([by_id[each] for each in some])
            if len(rows) < JOURNALS_AT_ONCE:
                return

    async def wake(
        self, parents: Collection[UUID], suspended: Collection[UUID] = (), overtaken: Collection[UUID] = ()
    ) -> None:
        """Wake the workflows among the parents of jobs that have ended, and look at them at once; so at those
        that were just suspended, at the end of those of which a turn was reported after it, and of those that
        were overtaken by the success of an earlier turn.

        Returns once each has been looked at as it was after this call, or goes on, or is due: the loops of
        all supervisors make the turns of those beyond the first ones. A wake counts if this process dies.
        """
        woken = await self._store.wake_suspended(parents, self._clock.now())
        late = await self._store.late_turns({*parents} - woken)
        left = [*sorted(late.union(overtaken)), *sorted(woken.union(suspended))[:_AT_ONCE]]
        for _ in range(_MAX_ROUNDS):
            if not left:
                return
            left = [each for some in await divide(self._store, left) for each in await self._look_again(some)]
        raise Contended(f"expected to save {len(left)} workflows in {_MAX_ROUNDS} rounds, others were faster")

    async def woken_before(self, awaiting: Mapping[UUID, Sequence[UUID]]) -> set[UUID]:
        """Return those of these workflows, which have just suspended, of which a child job has ended already:
        its end has found them running. The others wait."""
        ids = [child for children in awaiting.values() for child in children]
        ended = {job.job_id for job in (await self._store.child_status(ids)).values() if job.state.terminal}
        now = self._clock.now()
        self._waits |= {job_id: WaitRow(job_id=job_id, kind=WaitKind.CHILD, since=now) for job_id in awaiting}
        return {job_id for job_id, children in awaiting.items() if not ended.isdisjoint(children)}

    async def parents_of(self, members: Collection[Member], but: UUID | None = None) -> set[UUID]:
        """Return the parents of those batches of maps of which no job is unfinished (`but`: one that is about
        to end)."""
        read = {(parent, MemberOf.read(text)) for parent, text in members}
        batches = [(parent, one.call_id, one.size) for parent, one in read]
        return {parent async for (parent, *_), _ in self._ended_batches(batches, but=but)}

    async def _ended_batches(
        self, batches: Iterable[Batch], *, but: UUID | None = None, stopped: Collection[str] = ()
    ) -> AsyncIterator[tuple[Batch, list[ChildStatus | None]]]:
        """Yield the jobs of each batch that has ended, and of each of a map that has stopped. Of all others
        the last jobs alone are read, which end last: a map may have a thousand open batches."""
        last = {one: _members(one, but, _LAST_MEMBERS) for one in batches}
        jobs = await self._store.child_status({each for ids in last.values() for each in ids})
        for batch, ids in last.items():
            if (is_stopped := _map_of(batch[1]) in stopped) or _have_ended(map(jobs.get, ids)):
                whole = _members(batch, but)
                found = await self._store.child_status(whole)
                if is_stopped or _have_ended(map(found.get, whole)):
                    yield batch, [found.get(each) for each in whole]

    async def _map_answers(self, row: JobRow, turns: Sequence[TurnRow]) -> list[Answer]:
        """Answer the batches of maps of which all jobs have ended, and all of a map that has stopped."""
        waiting = {(row.job_id, one.call_id, one.size): one for one in open_calls(turns) if one.size}
        stopped = {
            map_id
            for map_id, limit in {(_map_of(call.call_id), call.stop_after) for call in waiting.values()}
            if limit is not None and await self._store.count_failed(row.job_id, map_id, limit) >= limit
        }
        fresh: list[Answer] = []
        room: int | None = None
        async for batch, jobs in self._ended_batches(waiting, stopped=stopped):
            if room is None:
                sizes = await self._store.journal_sizes([row.job_id])
                room = max(workflow_turns.MAX_MEMBERS_ENDS - sizes.get(row.job_id, 0), 0)
            answer = await self._answer_of(waiting[batch], jobs, room)
            fresh.append(answer)
            room = max(room - len(answer.model_dump_json()), 0)
        return fresh

    async def _answer_of(self, call: Call, jobs: Sequence[ChildStatus | None], room: int) -> Answer:
        limit, size = MAX_MEMBER_FAILURES if room else 0, min(room, workflow_turns.MAX_MEMBERS_END)
        done = [job for job in jobs if job is not None and job.finished_at is not None]
        good = [job.job_id for job in done if job.state is JobState.SUCCEEDED]
        failed = [job.job_id for job in done if job.state is not JobState.SUCCEEDED][:limit]
        ends = {**await self._store.child_ends(good, size, size)}
        ends |= await self._store.child_ends(failed, 0, workflow_turns.MAX_ANSWERS)
        return Answer(
            call_id=call.call_id,
            at=max((job.finished_at for job in done if job.finished_at), default=self._clock.now()),
            members=workflow_turns.members_end(jobs, ends, limit, size),
        )

    async def _look_again(self, job_ids: Collection[UUID]) -> list[UUID]:
        rows = await self._store.jobs_by_id(job_ids)
        await self._follow_end([row for row in rows.values() if row.state.terminal])
        return await self._look_at([row for row in rows.values() if row.state is JobState.SUSPENDED])

    async def _look_at(self, rows: Sequence[JobRow]) -> list[UUID]:
        """Make the turns of these, and return those that others have changed meanwhile. A workflow that fails
        is put off, longer each time, and stops no other."""
        try:
            left = await self._make_turns(rows) if rows else []
        except Exception as error:
            if is_outage(error):
                raise
            if len(rows) > 1:
                return [left for row in rows for left in await self._look_at([row])]
            (row,) = rows
            _log.exception(
                "The next turn of a workflow could not be made; it is tried again later.",
                action="workflows.failed",
                job_id=str(row.job_id),
            )
            pause = self._pauses[row.job_id] = min(
                2 * self._pauses.get(row.job_id, _FIRST_PAUSE), workflow_turns.LOOK_AGAIN
            )
            now = self._clock.now()
            later = now + pause
            await self._reporter.raise_incidents([unreadable_journal(row, error, now)])
            await self._store.save_jobs([Save(evolve(row, version=row.version + 1, wake_at=later))])
            return []
        for row in rows if self._pauses else ():
            self._pauses.pop(row.job_id, None)
        return left

    async def _make_turns(self, rows: Sequence[JobRow]) -> list[UUID]:
        turns = {row.job_id: list[StoredTurn]() for row in rows} | await self._store.stored_turns(
            [row.job_id for row in rows]
        )
        known = [one for row in rows if (one := await self._as_stored(row, turns[row.job_id])) is not None]
        ending = {row.job_id: row for row in known if row.ending}
        ends = await self._store.turns_of(ending)
        left = [job_id for job_id, row in ending.items() if not await self._end(row, ends.get(job_id, ()))]
        return left + await self._go_on([row for row in known if not row.ending], turns)

    async def _as_stored(self, row: JobRow, turns: Sequence[StoredTurn]) -> JobRow | None:
        """The workflow with the suspensions that are stored; None if one is on its way, whose repeat looks at
        it again. It is lost if this process has missed it for some time: after an outage the repeat comes
        first."""
        if workflow_turns.is_stored(row, turns):
            self._missed.pop(row.job_id, None)
            return row
        now = self._clock.now()
        if len(self._missed) >= _MAX_MISSED:  # others have looked at them since
            self._missed = {job_id: at for job_id, at in self._missed.items() if now - at < 4 * _ON_ITS_WAY}
        since = self._missed.setdefault(row.job_id, now)
        if now - since <= _ON_ITS_WAY:
            return None
        del self._missed[row.job_id]
        if row.generation == row.attempt and row.ending is None:
            await self._reporter.raise_incidents([unreadable_journal(row, LookupError(_NO_ARGUMENTS), now)])
            return None
        _log.error(
            "The suspension of a workflow has not come to the store; it goes on from what is stored.",
            action="workflows.suspension_lost",
            job_id=str(row.job_id),
            attempt=row.attempt,
        )
        return workflow_turns.without_lost(row, turns)

    async def _go_on(self, rows: Sequence[JobRow], stored: Mapping[UUID, Sequence[StoredTurn]]) -> list[UUID]:
        if not rows:
            return []
        await self._end_generations(rows, stored)
        turns = {row.job_id: open_turns(row.job_id, stored[row.job_id], since=row.attempt) for row in rows}
        names = {row.job_id: workflow_turns.awaited_signals(turns[row.job_id]) for row in rows}
        received = [
            (job_id, each) for job_id in names for each in workflow_turns.received_signals(turns[job_id])
        ]
        limit = max((count for each in names.values() for count in each.values()), default=0)
        signals = await self._store.signals_of(names, limit, received=received)
        awaited = {child for row in rows for child in workflow_turns.awaited_jobs(turns[row.job_id])}
        children = await self._store.child_ends(awaited, MAX_ANSWER, workflow_turns.MAX_ANSWERS)
        now = self._clock.now()
        for row in rows:
            if retries := workflow_retries.retried_failures(turns[row.job_id]):
                await self._request_again(row, retries, now)
        begun: dict[UUID, TurnRow] = {}
        saves: list[JobRow] = []
        for row in rows:
            own = turns[row.job_id]
            members = [
                *await self._map_answers(row, own),
                *await answer_pages(self._store, row.job_id, own, now),
            ]
            sent = signals.get(row.job_id, ())
            turn = workflow_turns.next_turn(row, own, sent, children, now, members=members)
            if isinstance(turn, datetime):
                saves.append(evolve(row, version=row.version + 1, wake_at=turn))
            else:
                begun[row.job_id] = turn
        if begun:
            await self._store.keep_answers(list(begun.values()))
        # As they are stored: another supervisor may have been first.
        begun_as = await self._store.last_turns(begun)
        messages: dict[UUID, Message] = {}
        for row in rows:
            if (last := begun_as.get(row.job_id)) is not None:
                known = [*(one for one in stored[row.job_id] if one.attempt <= row.attempt), last]
                queued = workflow_turns.dispatched_turn(row, now)
                pages = await load_pages(self._store, row.job_id, known)
                resumption = Resumption(
                    journal=journal_json(known), arguments=arguments_of(known), pages=pages
                )
                messages[row.job_id] = message = dispatch_message(queued, now, resumption)
                excess = workflow_turns.dispatch_excess(len(message.body))
                saves.append(queued if excess is None else workflow_end.end_of_excess(row, excess, now))
        applied = await self._store.save_jobs([Save(row) for row in saves])
        self._waits |= {
            row.job_id: workflow_turns.wait_of(row, turns[row.job_id])
            for row in saves
            if row.job_id in applied and row.state is JobState.SUSPENDED
        }
        await self._drop_waits(begun)
        fresh = {row.job_id for row in rows if not row.is_held}
        await self._reporter.raise_dead_jobs([row for row in saves if row.is_held and row.job_id in fresh])
        dispatched = {
            row.job_id: row for row in saves if row.job_id in applied and row.state is JobState.QUEUED
        }
        for row in rows:
            if row.job_id in dispatched:
                self._spans.record_answers(row, turns[row.job_id], begun[row.job_id])
        self._metrics.record_turns(dispatched.values())
        await keep_unpublished(
            self._ports, await self._ports.publish([messages[job_id] for job_id in dispatched])
        )
        return [row.job_id for row in saves if row.job_id not in applied]

    async def _end_generations(
        self, rows: Sequence[JobRow], stored: Mapping[UUID, Sequence[StoredTurn]]
    ) -> None:
        """Forget the generations that have ended, before the ones of today receive any signal."""
        for row in rows:
            if row.generation == row.attempt and arguments_of(stored[row.job_id]) is not None:
                await self._store.end_generation(row.job_id, row.generation, self._clock.now() - _KNOWN)

    async def _write_waits(self) -> None:
        """Store what workflows wait for, but for the short waits: most are over by then."""
        waits, self._waits = self._waits, {}
        await self._store.keep_waits([wait for wait in waits.values() if wait is not None])
        await self._store.drop_waits([job_id for job_id, wait in waits.items() if wait is None])

    async def _drop_waits(self, job_ids: Collection[UUID]) -> None:
        """Forget what these have waited for; of waits that are not written yet another supervisor may have
        written one."""
        unwritten = self._waits.keys() & job_ids
        self._waits |= dict.fromkeys(unwritten)
        await self._store.drop_waits({*job_ids} - unwritten)
        if len(self._waits) > _MAX_UNWRITTEN:
            await self._write_waits()

    # -- holds -----------------------------------------------------------------------------------------------

    async def end_hold(self, event: JobContinueRequested) -> CommandResult:
        """Resume a held workflow, perhaps with other child jobs in place of failed ones, or begin its end; a
        repeat finds it no longer held."""
        job_id = event.data.job_id
        for _ in range(_MAX_ROUNDS):
            row, now = (await self._store.jobs_by_id([job_id])).get(job_id), self._clock.now()
            if row is None or row.state.terminal:
                state = "none with this id" if row is None else f"one that is {row.state.value}"
                return CommandResult(refusal=f"expected a workflow that is held, got {state}")
            if not row.is_held:
                state = row.state.value if row.ending is None else f"ending as {row.ending.value}"
                return CommandResult(detail=f"it is not held, it is {state}")
            resumes, retries = event.data.action is HeldAction.RESUME, False
            if resumes:
                try:
                    retries = await self._record_retry(row, event.data.retry, now)
                except ValueError as error:
                    return CommandResult(refusal=str(error))
            change = suspensions.resumed if resumes else suspensions.given_up
            changed = (suspensions.waiting_for_retries if retries else change)(row, now)
            if await self._store.save_jobs([Save(changed)]):
                await self._drop_waits([job_id])
                self._spans.record_hold(row, now)
                if resumes and not retries:
                    self._metrics.record_turns([changed])
                    await publish_turns(self._ports, [changed])
                else:
                    await self.wake([job_id])
                return CARRIED_OUT
        raise Contended(f"expected to save workflow {job_id} in {_MAX_ROUNDS} rounds, others were faster")

    async def _record_retry(self, row: JobRow, names: Collection[str], now: datetime) -> bool:
        """Store the calls whose child jobs are requested again; True if there are some, also those of a
        command that has stored them and not come further. Raises ValueError for a name that no failed call
        has."""
        turns = (await self._store.turns_of([row.job_id])).get(row.job_id, [])
        last = next((one for one in turns if one.attempt == row.attempt and one.suspension is not None), None)
        if last is not None:
            workflow_retries.require_stored(names, last)
        if last is not None or not names:
            return last is not None and is_retry(last)
        jobs = await self._store.child_status([call.job_id for call in all_calls(turns) if call.job_id])
        calls = workflow_retries.retried_calls(row.job_id, names, turns, jobs)
        turn = TurnRow(
            job_id=row.job_id, attempt=row.attempt, suspension=Suspension(calls=calls), suspended_at=now
        )
        await self._store.keep_suspensions([turn])
        return True

    async def _request_again(self, row: JobRow, retries: Mapping[UUID, Call], now: datetime) -> None:
        """Request the child jobs that are not there yet, few at a time: their arguments may be large."""
        there = await self._store.child_status([call.job_id for call in retries.values() if call.job_id])
        missing = [failed for failed, call in retries.items() if call.job_id not in there]
        for start in range(0, len(missing), _AT_ONCE):
            failed = await self._store.jobs_by_id(missing[start : start + _AT_ONCE])
            requests = [
                workflow_retries.retry_request(row, retries[job_id], one, now)
                for job_id, one in failed.items()
            ]
            await self._ports.publish(list(map(build_message, requests)))

    # -- ends ------------------------------------------------------------------------------------------------

    async def _end(self, row: JobRow, turns: Sequence[TurnRow]) -> bool:
        """Take the next step of an end; False if others have changed the job meanwhile."""
        now = self._clock.now()
        step, jobs = await self._next_step(row, turns, now)
        if isinstance(step, workflow_end.FinishEnd):
            return await self._finish(row, step, now)
        await self._publish_step(row, step, now)
        is_unknown = isinstance(step, workflow_end.CancelChildren) and not jobs.keys() >= set(step.job_ids)
        wait = _SOON if is_unknown else workflow_turns.LOOK_AGAIN
        if isinstance(step, workflow_end.CancelChildren) and any(call.size for call in all_calls(turns)):
            wait = _OFTEN
        waits = evolve(row, version=row.version + 1, wake_at=now + wait)
        if not await self._store.save_jobs([Save(waits)]):
            return False
        self._waits[row.job_id] = workflow_turns.wait_of(row, turns)
        return True

    async def _follow_end(self, rows: Sequence[JobRow]) -> None:
        """Undo the calls of turns that were reported after the ends of their jobs, which stay as they are:
        each end of a child brings the next step. After a success children that were left are cancelled."""
        turns = await self._store.turns_of([row.job_id for row in rows]) if rows else {}
        now = self._clock.now()
        await self._drop_waits([row.job_id for row in rows])
        for row in rows:
            step, _ = await self._next_step(row, turns.get(row.job_id, ()), now)
            if isinstance(step, workflow_end.FinishEnd):
                await self._raise_failed(row, step, now)
            else:
                await self._publish_step(row, step, now)

    async def _next_step(
        self, row: JobRow, turns: Sequence[TurnRow], now: datetime
    ) -> tuple[workflow_end.EndStep, Mapping[UUID, ChildStatus]]:
        """Decide the next step of an end. The mark cancels children that a turn under way requests later; it
        spares jobs that undo, and detached ones. Once a call is undone no child is left to cancel."""
        jobs = await self._store.child_status(workflow_end.undos_of_end(row, turns))
        running: list[UUID] = []
        if not jobs:
            mark = CancelledTree(job_id=row.job_id, reason=_end_reason(row), cancelled_at=now)
            await self._store.mark_cancelled([mark])
            children = page = await self._store.open_children(row.job_id, limit=views.MAX_CHILDREN)
            running = [child.job_id for child in children]
            # Of maps: those beyond the first page are cancelled at once.
            while len(page) == views.MAX_CHILDREN:
                page = await self._store.open_children(row.job_id, page[-1].job_id, views.MAX_CHILDREN)
                left = tuple(child.job_id for child in page if not child.cancel_requested)
                await self._publish_step(row, workflow_end.CancelChildren(left), now)
        called = (call.job_id for call in all_calls(turns) if call.job_id is not None)
        jobs |= await self._store.child_status({*called, *running})
        return workflow_end.next_step(row, turns, jobs, running), jobs

    async def _publish_step(self, row: JobRow, step: workflow_end.EndStep, now: datetime) -> None:
        messages: list[Message] = []
        match step:
            case workflow_end.CancelChildren(job_ids):
                reason = _end_reason(row)
                cancels = [workflow_end.child_cancel(row, child, reason, now) for child in job_ids]
                messages += map(cancel_behind_reports, cancels)
            case workflow_end.UndoCall(call, since):
                if row.ending is not None and now - since >= workflow_turns.LOOK_AGAIN:
                    await self._reporter.raise_incidents([workflow_end.missing_undo(row, call, now)])
                messages.append(build_message(workflow_end.undo_request(row, call, now)))
            case workflow_end.AwaitUndo() | workflow_end.FinishEnd():
                pass
        await self._ports.publish(messages)

    async def _raise_failed(self, row: JobRow, end: workflow_end.FinishEnd, now: datetime) -> None:
        failed = [undo.job_id for _, undo in end.failed]
        ends = await self._store.child_ends(failed, 0, workflow_turns.MAX_ANSWERS)
        await self._reporter.raise_incidents(workflow_end.failed_undos(row, end, ends, now))

    async def _finish(self, row: JobRow, end: workflow_end.FinishEnd, now: datetime) -> bool:
        """Publish the end, then save it: no message comes again for it, so after a crash in between the next
        look publishes it again. Nothing else changes how it ends. So the workflow that has called it is due
        soon before it is saved, and woken afterwards."""
        ended = workflow_end.finished(row, end, now)
        await self._raise_failed(row, end, now)
        # By its error without what was undone: of a job that was held it is raised already.
        await self._reporter.raise_dead_jobs([row] if ended.dead_letter is not None else [])
        trace = TraceContext(row.traceparent, row.tracestate)
        notifications = ended.notifications
        await self._ports.publish(
            render_messages(ended.row, notifications, now=now, trace=trace, timings=self._timings)
        )
        is_end = ends_map_or_call(row.member_of, ended.row.state)
        parents = {row.parent_id} if row.parent_id is not None and is_end else set[UUID]()
        members = [(row.parent_id, row.member_of)] if row.parent_id and row.member_of else []
        soon = parents | await self.parents_of(members, but=row.job_id)
        await self._store.wake_suspended(soon, now + _SOON)
        if not await self._store.save_jobs([Save(ended.row, None, ended.dead_letter)]):
            return False
        await self._drop_waits([row.job_id])
        self._metrics.record_saved(JobBatch(ended.row, saves=[ended]))
        _log.info(
            "A workflow ended, and its calls were undone.",
            action="workflows.ended",
            job_id=str(row.job_id),
            job_type=row.job_type,
            state=ended.row.state.value,
            undone=len(end.undone),
            failed=len(end.failed),
        )
        if row.gates is not None:
            await self._slots.release([(row.job_id, row.attempt)])
        await self.wake(parents | await self.parents_of(members))
        return True


def ends_map_or_call(member_of: str | None, state: JobState) -> bool:
    """True if such an end of a child job may be the end of its call, or of its map (`stop_after`)."""
    return member_of is None or (state is not JobState.SUCCEEDED and MemberOf.read(member_of).stops)


def _members(batch: Batch, but: UUID | None, last: int = MAX_MEMBERS) -> list[UUID]:
    """The ids of the `last` jobs of a batch."""
    return [each for each in member_ids(*batch, first=max(batch[2] - last, 0)) if each != but]


def _have_ended(jobs: Iterable[ChildStatus | None]) -> bool:
    return all(job is not None and job.state.terminal for job in jobs)


def _map_of(call_id: str) -> str:
    return call_id.rpartition("/")[0]


def _end_reason(row: JobRow) -> str:
    return f"{END_REASON}{row.job_id} ends: {row.ending_reason or row.ending or row.state}"
