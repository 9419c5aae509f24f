"""Checks of what waits: every dispatch queue with jobs, and every job type with waiting jobs, explained as
`warrener explain` does."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING

from warrener.context import ResolvedEndpoints, connect_store
from warrener.doctor import CheckResult, failed, ok
from warrener.errors import CommandError
from warrener.explanations import explain
from warrener.explanations.explanation import Explanation
from warrener.explanations.facts import QueueSubject, SystemFacts, TypeSubject, counted
from warrener.gathering import gather_system, queue_subject
from warrener_contracts.state_machine import JobState
from warrener_store import StoreError
from warrener_store.jobs.rows import StateCount
from warrener_store.jobs.views import QueueHead

if TYPE_CHECKING:  # it imports the ports of all aggregates
    from warrener_store import Store

_WAITING = (JobState.WAITING, JobState.QUEUED, JobState.RETRYING)


async def check_waiting(endpoints: ResolvedEndpoints) -> AsyncIterator[CheckResult]:
    """Explain every queue and job type that has waiting jobs. Nothing if the store does not answer."""
    try:
        async with connect_store(endpoints) as store:
            for result in await _check(store, endpoints):
                yield result
    except (CommandError, StoreError):
        return  # the checks of the store and the broker say why


async def _check(store: "Store", endpoints: ResolvedEndpoints) -> list[CheckResult]:
    heads = {head.queue: head for head in await store.queue_heads()}
    types = await store.job_types()
    queues = {row.queue for row in types.values()} | heads.keys()
    system = await gather_system(store, endpoints, queues)
    if system.broker_trouble is not None:
        return []  # nothing is known of the queues; the check of the broker says why
    subjects = [await queue_subject(store, system, queue, heads.get(queue)) for queue in sorted(queues)]
    return [*check_queues(subjects, heads), *check_types(system, await store.count_jobs())]


def check_queues(subjects: Iterable[QueueSubject], heads: Mapping[str, QueueHead]) -> list[CheckResult]:
    """Fail for each queue with jobs or messages whose agents take none of them. Pure."""
    busy = [subject for subject in subjects if subject.name in heads or _has_messages(subject)]
    stuck = [(subject, found) for subject in busy if (found := explain(subject)).needs_action]
    if busy and not stuck:
        return [ok("queues", f"{len(busy)} with jobs, each with agents that take them")]
    return [_result(f"queue {subject.name}", found) for subject, found in stuck]


def check_types(system: SystemFacts, counts: Iterable[StateCount]) -> list[CheckResult]:
    """Fail for each job type with waiting jobs that no agent takes. Pure."""
    waiting: Counter[str] = Counter()
    for count in counts:
        if count.state in _WAITING and count.jobs:
            waiting[count.job_type] += count.jobs
    results: list[CheckResult] = []
    for name, jobs in sorted(waiting.items()):
        row = system.job_types.get(name)
        if row is not None and (found := explain(TypeSubject(system=system, row=row))).needs_action:
            results.append(_result(f"type {name}", found, f"; {counted(jobs, 'job')} waiting"))
    return results


def _has_messages(subject: QueueSubject) -> bool:
    known = subject.system.queues.get(subject.name)
    return known is not None and known.waiting > 0


def _result(check: str, found: Explanation, waiting: str = "") -> CheckResult:
    return failed(check, f"{found.line}{waiting}", next(iter(found.commands), found.next))
