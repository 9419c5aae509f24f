"""Gather the facts of explanations from the store, the broker and its management API.

A fact that cannot be read is noted as such; the others are gathered all the same.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from warrener.context import ResolvedEndpoints
from warrener.errors import CommandError
from warrener.explanations.facts import (
    MAX_COUNTED_BATCHES,
    AgentSubject,
    JobFacts,
    LimitFacts,
    QueueFacts,
    QueueSubject,
    ScheduleFacts,
    Subject,
    SystemFacts,
    TypeSubject,
    UnseenFacts,
    ended_agents,
)
from warrener.explanations.workflows import batches_of
from warrener.selection import search_job
from warrener_contracts.fields import is_queue_name
from warrener_contracts.identity import DETACHED_SOURCE, child_job_id, undo_job_id
from warrener_contracts.journals import all_calls, open_calls
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import REQUESTS_QUEUE, STATUS_QUEUE, TOPOLOGY, dispatch_queue
from warrener_store import StoreError
from warrener_store.breakers.gate import OpenBreakers
from warrener_store.databases.address import SqliteAddress, parse_address
from warrener_store.dead_letters.rows import DeadLetterFilter
from warrener_store.errors import StoreFull
from warrener_store.jobs.rows import JobFilter, JobRow
from warrener_store.jobs.views import REFUSAL_REPORTED, QueueHead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warrener.doctor.inspector import BrokerInspector, QueueInfo
    from warrener.doctor.management_api import QueueBindings
    from warrener_contracts.events import Call
    from warrener_store import Store
    from warrener_store.schedules.rows import ScheduleRow
    from warrener_store.workflows.rows import TurnRow

_QUEUE_TIMEOUT = 0.5  # seconds; of a queue without a quorum, the broker knows nothing for long
_QUERIES = 20  # channels at once
_BROKER_TIMEOUT = 5.0  # seconds; more than any answer of a healthy broker takes
_LATELY = timedelta(days=7)  # agents that were seen before are no news
_SHORTLY = timedelta(hours=1)  # an agent that fell silent before says nothing of the jobs of now
_MIN_FREE = 1 << 20  # bytes; a commit of SQLite may need as much
_COUNTED_JOBS = 1000
_SEARCHED_JOBS = 200
_TICKS = 50
_HOLDERS = 50
_LEVELS = 5  # of workflows above a job
_COUNTED_LINE = 10_000
_SCHEDULE_SOURCE = "warrener/schedule/"


class BrokerFacts(NamedTuple):
    """The answers of the broker, or why there are none. `queues`: dispatch queues by the names of jobs."""

    trouble: str | None = None
    alarm: str | None = None
    product: str | None = None  # such as RabbitMQ 4.3.0
    requests: "QueueInfo | None" = None
    statuses: "QueueInfo | None" = None
    queues: Mapping[str, "QueueInfo | None"] = {}


QueryBroker = Callable[[Collection[str]], Awaitable[BrokerFacts]]
"""Queries the broker about its services and these dispatch queues; never raises."""


# -- the system --------------------------------------------------------------------------------------------


async def gather_system(
    store: "Store",
    endpoints: ResolvedEndpoints,
    queues: Collection[str] = (),
    *,
    with_bindings: bool = False,
    with_broker: bool = True,
    query_broker: QueryBroker | None = None,
) -> SystemFacts:
    """Gather what is around every subject, with these dispatch queues.

    `query_broker` uses a connection that is open already; None: one is opened for this query.
    """
    ours_now, theirs = datetime.now(UTC), await store.time()
    query = query_broker or partial(_query_broker, endpoints)
    broker, (bound, unknown), trouble = await asyncio.gather(
        query(queues) if with_broker else _nothing(BrokerFacts()),
        _query_bindings(endpoints) if with_bindings else _nothing((None, None)),
        _store_trouble(store, endpoints.store_url),
    )
    agents, types = await store.agents(theirs - _LATELY), await store.job_types()
    refused: Mapping[str, str] = {}
    if with_broker:
        from warrener_store.incidents.rows import still_refused  # noqa: PLC0415 - jobs that are over need none

        refused = still_refused(await store.escalations.incidents(), theirs)  # each is among the newest
    system = SystemFacts(
        now=theirs,
        machine_ahead=ours_now - theirs,
        store_trouble=trouble,
        broker_alarm=broker.alarm,
        broker_trouble=broker.trouble,
        refused=refused,
        bindings_unknown=unknown if broker.trouble is None else None,
        schedulers=None if broker.requests is None else broker.requests.consumers,
        supervisors=None if broker.statuses is None else broker.statuses.consumers,
        requests_waiting=0 if broker.requests is None else broker.requests.messages,
        statuses_waiting=0 if broker.statuses is None else broker.statuses.messages,
        queues={name: queue_facts(name, info, bound) for name, info in broker.queues.items()},
        agents=tuple(agents),
        job_types=types,
        breakers=OpenBreakers(await store.breakers()),
    )
    missing = {queue for queue in queues if _misses_an_agent(system, queue)}
    return replace(system, ending_jobs=await _ending_jobs(store, missing)) if missing else system


def _misses_an_agent(system: SystemFacts, queue: str) -> bool:
    known, alive = system.queues.get(queue), system.alive_of(queue)
    if not alive or (known is not None and known.exists and not known.consumers):
        return True
    others = (agent for agent in system.agents_of(queue) if agent not in alive and not agent.draining)
    return any(system.now - agent.last_seen_at < _SHORTLY for agent in others)


async def _ending_jobs(store: "Store", queues: Collection[str]) -> dict[str, JobRow]:
    """The job of each queue that has ended most agents, among the newest that have not ended."""
    found: list[JobRow] = []
    for state in (JobState.RUNNING, JobState.RETRYING, JobState.QUEUED):  # apart: each may be many
        found += await store.list_jobs(JobFilter(states=(state,), limit=_SEARCHED_JOBS))
    harmful = [row for row in found if row.queue in queues and ended_agents(row)]
    return {row.queue: row for row in sorted(harmful, key=ended_agents)}  # the last of each queue


async def _nothing(value: Any) -> Any:
    return value


async def _store_trouble(store: "Store", url: str) -> str | None:
    """Why the store takes no writes, as far as that shows without a write."""
    try:
        await store.ping()
    except StoreError as error:
        return str(error).partition(";")[0]
    address = parse_address(url)
    if not isinstance(address, SqliteAddress):
        return None
    free = shutil.disk_usage(address.path.parent).free
    return None if free >= _MIN_FREE else f"the disk of {address.path} is full, {free} bytes are left"


async def _query_broker(endpoints: ResolvedEndpoints, queues: Collection[str]) -> BrokerFacts:
    # AMQP is not imported for a job that is over, of which the broker knows nothing.
    from warrener.doctor.inspector import open_inspector  # noqa: PLC0415

    try:
        async with (
            asyncio.timeout(_BROKER_TIMEOUT),
            open_inspector(endpoints.broker_url, endpoints.namespace) as inspector,
        ):
            found = await inspect_queues(inspector, queues)
            return found._replace(alarm=await inspector.alarm())
    except TimeoutError:
        return BrokerFacts(f"no answer within {_BROKER_TIMEOUT:g} s")
    except CommandError as error:
        return BrokerFacts(error.sentence)


async def inspect_queues(inspector: "BrokerInspector", queues: Collection[str]) -> BrokerFacts:
    """Query the queues of the services and these dispatch queues. Raises as the inspector does."""
    from warrener.doctor.inspector import QueueInfo  # noqa: PLC0415 - as above
    from warrener_amqp.errors import ChannelRefused  # noqa: PLC0415 - as above

    found: dict[str, QueueInfo | None] = {}
    places = asyncio.Semaphore(_QUERIES)

    async def look(name: str) -> None:
        """Leave out a queue that does not answer, or refuses: it is unknown."""
        async with places:
            with suppress(TimeoutError, ChannelRefused):
                async with asyncio.timeout(_QUEUE_TIMEOUT):
                    found[name] = await inspector.queue(dispatch_queue(name).name)

    async def look_at_service(name: str) -> QueueInfo | None:
        with suppress(ChannelRefused):
            return await inspector.queue(name) or QueueInfo(0, 0)
        return None

    await asyncio.gather(*(look(name) for name in queues if is_queue_name(name)))
    return BrokerFacts(
        product=inspector.broker,
        requests=await look_at_service(REQUESTS_QUEUE.name),
        statuses=await look_at_service(STATUS_QUEUE.name),
        queues={name: found[name] for name in queues if name in found},
    )


async def _query_bindings(endpoints: ResolvedEndpoints) -> "tuple[QueueBindings | None, str | None]":
    """The bindings by the code's names of queues, and why they are unknown."""
    # HTTP is not imported for the answers that need no bindings, such as the page of a job.
    from warrener.doctor.management_api import BindingsUnavailable, bindings, resolve_management_api  # noqa: PLC0415
    from warrener.doctor.topology import check_same_broker, ours  # noqa: PLC0415
    from warrener_runtime.bus.namespace import NameMapper  # noqa: PLC0415

    management = resolve_management_api(endpoints.broker_url, endpoints.management_url)
    try:
        found = ours(await bindings(management), NameMapper(endpoints.namespace))
        return check_same_broker(management, TOPOLOGY.queues, found), None
    except BindingsUnavailable as reason:
        return None, reason.why


def queue_facts(name: str, info: "QueueInfo | None", bound: "QueueBindings | None" = None) -> QueueFacts:
    """Make the facts of a queue of the broker's counts, and of its bindings if they are known. Pure."""
    if info is None:
        return QueueFacts(exists=False)
    wanted = dispatch_queue(name)
    unbound: tuple[str, ...] | None = None
    if bound is not None:
        there = bound.get(wanted.name, frozenset())
        unbound = tuple(each.exchange for each in wanted.bindings if each not in there)
    return QueueFacts(waiting=info.messages, consumers=info.consumers, unbound=unbound)


# -- subjects ----------------------------------------------------------------------------------------------


async def gather(store: "Store", endpoints: ResolvedEndpoints, text: str) -> Subject:
    """Find the subject that the text names, and gather its facts. Raises CommandError for several jobs.

    `schedule:NAME`, `queue:NAME`, `agent:NAME`, `type:NAME` and `job:ID` name one kind alone.
    """
    subject = await _find_subject(store, endpoints, text)
    if subject.system.store_trouble or isinstance(parse_address(endpoints.store_url), SqliteAddress):
        return subject
    from warrener.doctor.store import try_write  # noqa: PLC0415 - the console's pages write nothing

    try:  # that its disk is full, PostgreSQL shows by a write alone
        await try_write(store)
    except StoreFull as error:
        trouble = str(error).partition(";")[0]
        return replace(subject, system=replace(subject.system, store_trouble=trouble))
    except StoreError:
        pass  # a user who may read alone, for example
    return subject


async def _find_subject(store: "Store", endpoints: ResolvedEndpoints, text: str) -> Subject:
    finders = {
        "job": _job_subject,
        "schedule": _schedule_subject,
        "type": _type_subject,
        "queue": _queue_subject,
        "agent": _agent_subject,
    }
    kind, _, name = text.partition(":")
    if kind not in finders or not name:
        kind, name = "", text
    for each, find in finders.items():
        if kind in ("", each) and (found := await find(store, endpoints, name)) is not None:
            return found
    from warrener.gathering_unseen import gather_unseen  # noqa: PLC0415 - most subjects have a row

    return await gather_unseen(store, await gather_system(store, endpoints), name, kind)


async def _job_subject(store: "Store", endpoints: ResolvedEndpoints, text: str) -> JobFacts | None:
    if (row := await search_job(store, text)) is None:
        return None
    return await gather_job(store, endpoints, row, with_bindings=not row.state.terminal)


async def gather_job(
    store: "Store",
    endpoints: ResolvedEndpoints,
    row: JobRow,
    *,
    with_bindings: bool = False,
    with_broker: bool = True,
    query_broker: QueryBroker | None = None,
) -> JobFacts:
    """Gather the facts of one job; those of the broker only while it is not over."""
    turns, jobs = await gather_turns(store, row)
    signals = await store.sent_signals(row.job_id) if row.suspensions else []
    members_left, member = await _gather_members(store, row, turns)
    awaited = member if row.state.terminal else _find_awaited(row, turns, jobs) or member
    queues = {row.queue} if awaited is None else {row.queue, awaited.queue}
    system = await gather_system(
        store,
        endpoints,
        () if row.state.terminal else queues,
        with_bindings=with_bindings,
        with_broker=with_broker and not row.state.terminal,
        query_broker=query_broker,
    )
    is_suspended = row.state is JobState.SUSPENDED and row.ending is None
    calls = open_calls(turns) if is_suspended else ()
    missing = [call.job_id for call in calls if call.job_id and call.job_id not in jobs]
    dead = [job.job_id for job in jobs.values() if job.state is JobState.DEAD]
    found = await store.dead_letter_store.list_dead_letters(
        DeadLetterFilter(states=(), job_ids=(row.job_id, *dead), limit=1 + len(dead))
    )
    dead_letter = next((one for one in found if one.job_id == row.job_id), None)
    new = dead_letter.redriven_as if dead_letter is not None else None
    schedule = row.source.removeprefix(_SCHEDULE_SOURCE)
    is_refusal_reported = row.dispatched_at is None and row.wake_at == REFUSAL_REPORTED
    parent, parent_call = await _find_parent(store, row)
    return JobFacts(
        system=system,
        row=row,
        attempts=tuple(await store.attempts_of([row.job_id])),
        dead_letter=dead_letter,
        redriven_as=(await store.jobs_by_id([new])).get(new) if new is not None else None,
        refusing_since=await _queue_refuses_since(store, row.queue) if is_refusal_reported else None,
        schedule=schedule if schedule != row.source else None,
        turns=tuple(turns),
        jobs=jobs,
        awaited=None if awaited is None else await _facts_of_awaited(store, system, awaited),
        members_left=members_left,
        parked_child=await _find_parked_child(store, system, missing[0]) if missing else None,
        settled=frozenset(one.job_id for one in found if not one.state.unresolved),
        signals=tuple(signals),
        limit=await _gather_limit(store, row),
        unique_key=None if row.policy.unique is None else await store.unique_key_of(row.job_id),
        parent=parent,
        parent_call=parent_call,
    )


async def _gather_limit(store: "Store", row: JobRow) -> LimitFacts | None:
    """Gather the facts of the gate before which a job waits."""
    waits = row.gates is not None and row.state in {JobState.WAITING, JobState.RETRYING}
    waiter = await store.waiter_of(row.job_id) if waits else None
    if waiter is None or waiter.since != row.due_at:
        return None
    holders, above, one = await store.slots_of(waiter.gate, _HOLDERS), list[UUID](), row
    for _ in range(_LEVELS):
        if one.parent_id is None or one.source.startswith(DETACHED_SOURCE):
            break
        if (found := (await store.jobs_by_id([one.parent_id])).get(one.parent_id)) is None:
            break
        one = found
        above += [slot.job_id for slot in holders if one.suspensions and slot.job_id == one.job_id]
    return LimitFacts(
        room=(await store.gate_rooms([waiter.gate]))[waiter.gate],
        holders=tuple(holders),
        above=tuple(above),
        since=waiter.since,
        before=await store.count_before(waiter, _COUNTED_LINE),
    )


async def gather_turns(store: "Store", row: JobRow) -> "tuple[Sequence[TurnRow], Mapping[UUID, JobRow]]":
    """Gather the turns of a workflow, and the jobs of them that it may wait for: the children of open calls
    and, once it has not succeeded, all that an undo is about. Of another job: nothing."""
    if not row.suspensions:
        return (), {}
    turns = (await store.turns_of([row.job_id])).get(row.job_id, [])
    ids = {call.job_id for call in open_calls(turns)}
    if row.ending is not None or (row.state.terminal and row.state is not JobState.SUCCEEDED):
        undone = [call for call in all_calls(turns) if call.undo is not None]
        ids |= {call.job_id for call in undone} | {undo_job_id(row.job_id, one.undo_key) for one in undone}
    return turns, await store.jobs_by_id([each for each in ids if each is not None])


def _find_awaited(row: JobRow, turns: "Sequence[TurnRow]", jobs: "Mapping[UUID, JobRow]") -> JobRow | None:
    """The first job that a suspended workflow waits for."""
    if row.state is not JobState.SUSPENDED:
        return None
    calls = all_calls(turns)
    ids = [call.job_id for call in calls if call.job_id and not (row.ending and call.detached)]
    if row.ending is not None:  # after its child jobs, the undos: of the newest call first
        ids += [undo_job_id(row.job_id, call.undo_key) for call in reversed(calls)]
    found = (jobs[each] for each in ids if each in jobs)
    return next((job for job in found if not job.state.terminal), None)


async def _find_parked_child(store: "Store", system: SystemFacts, job_id: "UUID") -> UnseenFacts | None:
    """The facts of a child job that has no row, if its request is parked."""
    from warrener.gathering_unseen import find_parked  # noqa: PLC0415 - most subjects have a row

    parked, searched = await find_parked(store, str(job_id))
    if parked is None:
        return None
    return UnseenFacts(system=system, text=str(job_id), parked=parked, searched=searched)


async def _facts_of_awaited(store: "Store", system: SystemFacts, row: JobRow) -> JobFacts:
    """The facts of a job that a workflow waits for, without those behind it."""
    turns, jobs = await gather_turns(store, row)
    attempts = tuple(await store.attempts_of([row.job_id]))
    limit = await _gather_limit(store, row)
    return JobFacts(system=system, row=row, attempts=attempts, turns=tuple(turns), jobs=jobs, limit=limit)


async def _find_parent(store: "Store", row: JobRow) -> "tuple[JobRow | None, Call | None]":
    """The parent of a job and, if that is a workflow which waits for it, the call."""
    if row.parent_id is None:
        return None, None
    parent = (await store.jobs_by_id([row.parent_id])).get(row.parent_id)
    if parent is None or parent.state is not JobState.SUSPENDED:
        return parent, None
    turns = (await store.turns_of([parent.job_id])).get(parent.job_id, [])
    for call in open_calls(turns) if parent.ending is None else all_calls(turns):
        is_member = row.member_of is not None and row.member_of.partition("/")[2] == call.call_id
        if is_member or row.job_id in (call.job_id, undo_job_id(parent.job_id, call.undo_key)):
            return parent, call
    return parent, None


async def _gather_members(
    store: "Store", row: JobRow, turns: "Sequence[TurnRow]"
) -> tuple[int, JobRow | None]:
    """Count the jobs of the first map that a suspended workflow waits for which have not ended; and the first
    of these."""
    calls = open_calls(turns) if row.state is JobState.SUSPENDED and row.ending is None else []
    batches = next((found for call in calls if (found := batches_of(call, calls))), None) or ()
    left, first = sum(call.size or 0 for call in batches[MAX_COUNTED_BATCHES:]), list[UUID]()
    for call in batches[:MAX_COUNTED_BATCHES]:
        ids = [child_job_id(row.job_id, f"{call.call_id}/{number}") for number in range(call.size or 0)]
        jobs = await store.child_status(ids)
        alive = [each for each in ids if each not in jobs or not jobs[each].state.terminal]
        left += len(alive)
        first = first or [each for each in alive if each in jobs][:1]
    return left, next(iter((await store.jobs_by_id(first)).values()), None) if first else None


async def _queue_refuses_since(store: "Store", queue: str) -> datetime | None:
    from warrener_store.incidents.rows import IncidentFilter, refusing_fingerprint  # noqa: PLC0415 - few queues refuse

    named = IncidentFilter(fingerprints=[refusing_fingerprint(queue)], closed=True)
    for incident in await store.escalations.incidents(named):
        if isinstance(since := incident.sample.get("since"), str):
            return datetime.fromisoformat(since)
    return None


async def _schedule_subject(store: "Store", endpoints: ResolvedEndpoints, name: str) -> ScheduleFacts | None:
    row = (await store.schedules([name])).get(name)
    if row is None:
        return None
    found = await gather_schedule(store, await gather_system(store, endpoints), row)
    last = found.ticks[0].job_id if found.ticks else None
    if last is None or found.last_job is not None:
        return found
    from warrener.gathering_unseen import find_parked  # noqa: PLC0415 - as above

    rejected, _ = await find_parked(store, str(last))
    return replace(found, rejected=rejected)


async def gather_schedule(store: "Store", system: SystemFacts, row: "ScheduleRow") -> ScheduleFacts:
    """Gather the newest ticks of a schedule, and the job of the last one that requested any."""
    ticks = await store.ticks_of(row.name, _TICKS)
    fired = [tick.job_id for tick in ticks if tick.job_id is not None][:1]
    jobs = await store.jobs_by_id(fired) if fired else {}
    last_job = next(iter(jobs.values()), None)
    return ScheduleFacts(system=system, name=row.name, row=row, ticks=tuple(ticks), last_job=last_job)


async def _type_subject(store: "Store", endpoints: ResolvedEndpoints, name: str) -> TypeSubject | None:
    if (row := (await store.job_types([name])).get(name)) is None:
        return None
    return TypeSubject(system=await gather_system(store, endpoints, [row.queue]), row=row)


async def _queue_subject(store: "Store", endpoints: ResolvedEndpoints, name: str) -> QueueSubject | None:
    heads = {head.queue: head for head in await store.queue_heads()}
    system = await gather_system(store, endpoints, [name], with_bindings=True)
    named = {queue for agent in system.agents for queue in agent.queues}
    named |= {row.queue for row in system.job_types.values()} | heads.keys()
    at_broker = system.queues.get(name)
    if name not in named and (at_broker is None or not at_broker.exists):
        return None
    return await queue_subject(store, system, name, heads.get(name))


async def queue_subject(
    store: "Store", system: SystemFacts, queue: str, head: QueueHead | None
) -> QueueSubject:
    """Gather the facts of one queue; `head`: its jobs in the store, if it has any."""
    if head is None:
        return QueueSubject(system=system, name=queue)
    groups = await store.queued_groups(queue, system.now, _COUNTED_JOBS)
    return QueueSubject(
        system=system,
        name=queue,
        oldest=head.oldest,
        unpublished=head.unpublished,
        refusing_since=await _queue_refuses_since(store, queue) if head.unpublished else None,
        waiting_types=tuple(sorted({group.job_type for group in groups})),
    )


async def _agent_subject(store: "Store", endpoints: ResolvedEndpoints, name: str) -> AgentSubject | None:
    row = next((agent for agent in await store.agents() if agent.agent_id == name), None)
    if row is None:
        return None
    return AgentSubject(system=await gather_system(store, endpoints, row.queues), row=row)
