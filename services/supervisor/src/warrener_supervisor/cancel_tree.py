"""Cancel a job with all its descendants, keep the tree from growing, and reply to the requesters."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from warrener_contracts.commands import CommandReplies, CommandResult, ReceivedCommand
from warrener_contracts.events import JobCancelRequested, JobCancelRequestedData
from warrener_contracts.messages import Message, cancel_behind_reports
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_store.jobs import views
from warrener_store.jobs.rows import JobRow
from warrener_store.jobs.views import CancelledTree, MarkOwner
from warrener_store.store import StateStore
from warrener_store.workflows.rows import member_ids
from warrener_supervisor import SOURCE
from warrener_supervisor.decisions.outcomes import describe_cancel
from warrener_supervisor.decisions.signals import supervisor_event
from warrener_supervisor.effects import SupervisorPorts

_log = get_logger("trees")

_BATCH_SIZE = 500
_WITH = "with the tree of "
_MARKS_REREAD = 10.0  # seconds
_MAX_MARKS_OF_ALL = 100
"""Sources, and users, that together may leave as many marks as each alone: a sender chooses its source
freely."""


async def cancel_trees(ports: SupervisorPorts, requests: Iterable[JobCancelRequested]) -> None:
    """Mark these trees and request the cancellation of each descendant that is not over, level by level.

    The roots are in the store, and judged on their own. A level is marked before its children are looked
    for, and a child is inserted before its parent's mark is looked at (`warrener_store.jobs.store`). So when
    a walk has found nothing more, the tree is closed: every job of it is marked, and every later child is
    cancelled when it is inserted. A walk that dies anywhere can be repeated.
    """
    level = {event.data.job_id: _reason(event) for event in requests}
    seen = set(level)
    cancelled_count = 0
    while level:
        below: dict[UUID, str] = {}
        job_ids = list(level)
        for first in range(0, len(job_ids), _BATCH_SIZE):
            some = {job_id: level[job_id] for job_id in job_ids[first : first + _BATCH_SIZE]}
            below |= await _cancel_level(ports, some, seen)
        cancelled_count += len(below)
        level = below
    if seen:
        _log.info("Trees were cancelled.", action="trees.cancelled", child_jobs=cancelled_count)


async def _cancel_level(ports: SupervisorPorts, level: dict[UUID, str], seen: set[UUID]) -> dict[UUID, str]:
    now = ports.clock.now()
    trees = [CancelledTree(job_id=job_id, reason=why, cancelled_at=now) for job_id, why in level.items()]
    found, below = await ports.store.mark_cancelled(trees), dict[UUID, str]()
    while found:
        # A request may name any parent, so this need not be a tree: no job is visited twice.
        children = [child for child in found if child.job_id not in seen]
        below |= {child.job_id: level[child.parent_id] for child in children}
        seen |= below.keys()
        cancels = [
            supervisor_event(
                JobCancelRequested,
                f"{child.job_id}:tree_cancelled",
                str(child.job_id),
                now,
                JobCancelRequestedData(job_id=child.job_id, reason=below[child.job_id]),
            )
            for child in children
            if not child.over
        ]
        await ports.publish(map(cancel_behind_reports, cancels))
        found = (
            await ports.store.children_of(level, found[-1].job_id) if len(found) == views.MAX_CHILDREN else []
        )
    return below


async def member_cancels(store: StateStore, event: JobCancelRequested, now: datetime) -> list[Message]:
    """Make the cancels of the jobs of a map's batch that have not ended. One that is not there yet leaves a
    tombstone, as that of any job."""
    batch = event.data.members
    assert batch is not None
    ids = member_ids(batch.parent_id, batch.call_id, batch.size)
    jobs, trace = await store.child_status(ids), (event.traceparent, event.tracestate)
    cancels = [
        supervisor_event(
            JobCancelRequested,
            f"{child}:map_cancelled",
            str(child),
            now,
            JobCancelRequestedData(job_id=child, reason=event.data.reason, tree=event.data.tree),
            trace=trace,
        )
        for child in ids
        if child not in jobs or not jobs[child].state.terminal
    ]
    return list(map(cancel_behind_reports, cancels))


class CancelMarks:
    """Limits the marks that one user of the broker leaves by cancels of unknown jobs, or one source if the
    message names no user; and those of all users together, and of all other sources, so that forged sources
    use up nobody's share.

    Counts are read from the store, and only if a cancel names an unknown job; each supervisor counts its own
    marks in between.
    """

    def __init__(self, store: StateStore, clock: Clock, limit: int) -> None:
        self._store, self._clock, self._limit = store, clock, limit
        self._open = Counter[MarkOwner]()
        self._of_sources = self._of_users = 0
        self._read_at = -_MARKS_REREAD

    async def refusals(self, cancels: Sequence[ReceivedCommand[JobCancelRequested]]) -> list[str | None]:
        """Return why each of these is refused; None if it is not."""
        named = {_named_job(one.event) for one in cancels}
        unknown = named - (await self._store.child_status(named)).keys()
        return [await self._refusal(one.event, one.user_id, unknown) for one in cancels]

    async def _refusal(
        self, event: JobCancelRequested, user_id: str | None, unknown: set[UUID]
    ) -> str | None:
        job_id = _named_job(event)
        if job_id not in unknown:
            return None
        if event.data.members is not None:
            return f"expected a workflow whose batch is cancelled, got no job with the id {job_id}"
        if self._clock.monotonic() - self._read_at >= _MARKS_REREAD:
            self._read_at = self._clock.monotonic()
            self._open = Counter(await self._store.count_cancel_marks(2 * _MAX_MARKS_OF_ALL * self._limit))
            self._of_sources = sum(marks for one, marks in self._open.items() if one.user is None)
            self._of_users = self._open.total() - self._of_sources
        owner = MarkOwner(user_id, event.source if user_id is None else None)
        own = self._open[owner]
        of_all = self._of_sources if user_id is None else self._of_users
        if own >= self._limit or of_all >= _MAX_MARKS_OF_ALL * self._limit:
            who = repr(owner.source) if user_id is None else f"user {user_id!r}"
            full = f"{who} has cancelled {own}" if own >= self._limit else f"all have cancelled {of_all}"
            return (
                f"expected the id of a job that was requested, got {job_id}, and {full} unknown jobs already"
                ": cancel it once its request is accepted"
            )
        self._open[owner] += 1
        self._of_sources += user_id is None
        self._of_users += user_id is not None
        unknown.discard(job_id)  # the cancels that follow find the mark
        return None


def _named_job(event: JobCancelRequested) -> UUID:
    batch = event.data.members
    return event.data.job_id if batch is None else batch.parent_id


def _reason(event: JobCancelRequested) -> str:
    """Return the reason for the descendants; that of a late child names its tree already."""
    reason = event.data.reason
    return reason if reason.startswith(_WITH) else f"{_WITH}{event.data.job_id}: {reason}"


def cancel_replies(
    cancels: Iterable[JobCancelRequested],
    before: Mapping[UUID, JobRow],
    after: Mapping[UUID, JobRow],
    clock: Clock,
) -> list[Message]:
    """Reply to the requesters of cancels with the effect on their jobs."""
    messages: list[Message] = []
    replies = CommandReplies(SOURCE, clock.now)
    for event in cancels:
        job_id = event.data.job_id
        accepted, detail = describe_cancel(before.get(job_id), after.get(job_id), tree=event.data.tree)
        result = CommandResult(detail=detail) if accepted else CommandResult(refusal=detail)
        messages += replies.messages(event, result)
    return messages
