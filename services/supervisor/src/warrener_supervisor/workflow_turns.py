"""Make the next turns of suspended workflows, and carry out their ends.

A turn: read → decide → keep its answers → save the job as queued → publish the dispatch with the journal as
it is stored. Any number of supervisors may make the same turn, and each may die anywhere. The first one that
keeps answers determines them, and the save decides who publishes. A dispatch that was not published is found
by the comparison with its queue (`redispatch`).

Every change of a job makes its version grow. So a decision is saved only if nothing has happened since the
job was read, and what happens before that, such as the end of a child, is in the store before the job is
woken and read again (`wake`). One of the two sees the other.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from warrener_contracts.commands import CARRIED_OUT, CommandResult
from warrener_contracts.events import MAX_ANSWER, HeldAction, JobContinueRequested
from warrener_contracts.journals import all_calls
from warrener_contracts.messages import Message, build_message, cancel_behind_reports
from warrener_contracts.state_machine import JobState
from warrener_runtime.backoff import is_outage
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import TraceContext
from warrener_store.jobs.rows import JobRow, Save, evolve
from warrener_store.jobs.views import END_REASON, CancelledTree
from warrener_store.workflows.rows import ChildStatus, TurnRow, journal_of
from warrener_supervisor.decisions import suspensions, workflow_end, workflow_turns
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
from warrener_supervisor.metrics import SupervisorMetrics
from warrener_supervisor.notifications import Resumption, dispatch_message, render_messages
from warrener_supervisor.trace_spans import JobSpans

_log = get_logger("workflows")

_SOON = timedelta(
    seconds=2
)  # until what wakes nobody is stored, such as the cancel of a job that is not there
_FIRST_PAUSE = timedelta(seconds=1)
_ON_ITS_WAY, _MAX_MISSED = timedelta(seconds=30), 1_000
_AT_ONCE = 50  # workflows that are looked at before a message is acknowledged; the others are due
_MAX_ROUNDS = 20  # others change the same jobs meanwhile; each round at least one of us gets on


class TurnMaker:
    """Looks at suspended workflows: those that are due, and those that something has woken."""

    def __init__(
        self,
        ports: SupervisorPorts,
        *,
        spans: JobSpans,
        reporter: IncidentReporter,
        metrics: SupervisorMetrics,
    ) -> None:
        self._ports = ports
        _, self._store, self._clock, self._timings = ports
        self._spans, self._reporter, self._metrics = spans, reporter, metrics
        self._pauses: dict[UUID, timedelta] = {}
        self._missed: dict[UUID, datetime] = {}  # since when suspensions were not there that were judged

    async def run_once(self) -> None:
        """Make the turns of all workflows that are due."""
        store, clock, claim = self._store, self._clock, self._timings.claim
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
        turns = {row.job_id: list[TurnRow]() for row in rows} | await self._store.turns_of(
            [row.job_id for row in rows]
        )
        stored = [known for row in rows if (known := self._as_stored(row, turns[row.job_id])) is not None]
        left = [row.job_id for row in stored if row.ending and not await self._end(row, turns[row.job_id])]
        return left + await self._go_on([row for row in stored if not row.ending], turns)

    def _as_stored(self, row: JobRow, turns: Sequence[TurnRow]) -> JobRow | None:
        """The workflow with the suspensions that are stored; None if one is on its way, whose repeat looks at
        it again. It is lost if this process has missed it for some time: after an outage the repeat comes
        first."""
        if workflow_turns.is_stored(row, turns):
            self._missed.pop(row.job_id, None)
            return row
        now = self._clock.now()
        if len(self._missed) >= _MAX_MISSED:  # others have looked at them since
            self._missed = {job_id: at for job_id, at in self._missed.items() if now - at < 4 * _ON_ITS_WAY}
        if now - self._missed.setdefault(row.job_id, now) <= _ON_ITS_WAY:
            return None
        del self._missed[row.job_id]
        _log.error(
            "The suspension of a workflow has not come to the store; it goes on from what is stored.",
            action="workflows.suspension_lost",
            job_id=str(row.job_id),
            attempt=row.attempt,
        )
        return workflow_turns.without_lost(row, turns)

    async def _go_on(self, rows: Sequence[JobRow], turns: Mapping[UUID, Sequence[TurnRow]]) -> list[UUID]:
        if not rows:
            return []
        names = {row.job_id: workflow_turns.awaited_signals(turns[row.job_id]) for row in rows}
        received = [
            (job_id, each) for job_id in names for each in workflow_turns.received_signals(turns[job_id])
        ]
        most = max((count for each in names.values() for count in each.values()), default=0)
        signals = await self._store.signals_of(names, most, received=received)
        awaited = {child for row in rows for child in workflow_turns.awaited_jobs(turns[row.job_id])}
        children = await self._store.child_ends(awaited, MAX_ANSWER, workflow_turns.MAX_ANSWERS)
        now = self._clock.now()
        begun: dict[UUID, TurnRow] = {}
        saves: list[JobRow] = []
        for row in rows:
            own = turns[row.job_id]
            turn = workflow_turns.next_turn(row, own, signals.get(row.job_id, ()), children, now)
            if isinstance(turn, datetime):
                saves.append(evolve(row, version=row.version + 1, wake_at=turn))
            else:
                begun[row.job_id] = turn
        if begun:
            await self._store.keep_answers(list(begun.values()))
        # As they are stored: another supervisor may have been first.
        stored = await self._store.last_turns(begun)
        messages: dict[UUID, Message] = {}
        for row in rows:
            if (last := stored.get(row.job_id)) is not None:
                before = [one for one in turns[row.job_id] if one.attempt <= row.attempt]
                queued, journal = workflow_turns.dispatched_turn(row, now), journal_of([*before, last])
                messages[row.job_id] = message = dispatch_message(queued, now, Resumption(journal=journal))
                excess = workflow_turns.dispatch_excess(len(message.body))
                saves.append(queued if excess is None else workflow_end.end_of_excess(row, excess, now))
        applied = await self._store.save_jobs([Save(row) for row in saves])
        fresh = {row.job_id for row in rows if not row.is_held}
        await self._reporter.raise_dead_jobs([row for row in saves if row.is_held and row.job_id in fresh])
        dispatched = {
            row.job_id: row for row in saves if row.job_id in applied and row.state is JobState.QUEUED
        }
        self._spans.record_waits_until(now, [row for row in rows if row.job_id in dispatched])
        self._metrics.record_turns(dispatched.values())
        await keep_unpublished(
            self._ports, await self._ports.publish([messages[job_id] for job_id in dispatched])
        )
        return [row.job_id for row in saves if row.job_id not in applied]

    # -- holds -----------------------------------------------------------------------------------------------

    async def end_hold(self, event: JobContinueRequested) -> CommandResult:
        """Resume a held workflow, or begin its end; a repeat finds it no longer held."""
        job_id = event.data.job_id
        for _ in range(_MAX_ROUNDS):
            row, now = (await self._store.jobs_by_id([job_id])).get(job_id), self._clock.now()
            if row is None or row.state.terminal:
                state = "none with this id" if row is None else f"one that is {row.state.value}"
                return CommandResult(refusal=f"expected a workflow that is held, got {state}")
            if not row.is_held:
                state = row.state.value if row.ending is None else f"ending as {row.ending.value}"
                return CommandResult(detail=f"it is not held, it is {state}")
            resumes = event.data.action is HeldAction.RESUME
            changed = suspensions.resumed(row, now) if resumes else suspensions.given_up(row, now)
            if await self._store.save_jobs([Save(changed)]):
                if resumes:
                    self._metrics.record_turns([changed])
                    await publish_turns(self._ports, [changed])
                else:
                    await self.wake([job_id])
                return CARRIED_OUT
        raise Contended(f"expected to save workflow {job_id} in {_MAX_ROUNDS} rounds, others were faster")

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
        waits = evolve(row, version=row.version + 1, wake_at=now + wait)
        return bool(await self._store.save_jobs([Save(waits)]))

    async def _follow_end(self, rows: Sequence[JobRow]) -> None:
        """Undo the calls of turns that were reported after the ends of their jobs, which stay as they are:
        each end of a child brings the next step. After a success children that were left are cancelled."""
        turns = await self._store.turns_of([row.job_id for row in rows]) if rows else {}
        now = self._clock.now()
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
            children = await self._store.mark_cancelled([mark])
            running = [child.job_id for child in children if not child.over and not child.detached]
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
            render_messages(ended.row, notifications, answers=(), now=now, trace=trace, timings=self._timings)
        )
        parents = [] if row.parent_id is None else [row.parent_id]
        await self._store.wake_suspended(parents, now + _SOON)
        if not await self._store.save_jobs([Save(ended.row, None, ended.dead_letter)]):
            return False
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
        await self.wake(parents)
        return True


def _end_reason(row: JobRow) -> str:
    return f"{END_REASON}{row.job_id} ends: {row.ending_reason or row.ending or row.state}"
