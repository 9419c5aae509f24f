"""Checks of the store: reachability, tables, clock; agents, job types and queues as stored there."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from warrener.doctor import CheckResult, failed, ok, warning
from warrener.errors import store_error
from warrener.explanations.facts import counted
from warrener.render.times import ago, span
from warrener_contracts.retryability import CODE_CHANGED, is_unrunnable_here
from warrener_contracts.state_machine import JobState
from warrener_runtime.secrets import mask
from warrener_store import StoreError, StoreRefused
from warrener_store.agents.rows import SILENT_AFTER, AgentRow, JobTypeRow
from warrener_store.incidents.rows import MIXED_QUEUE, IncidentFilter, IncidentRow, still_refused
from warrener_store.jobs.rows import JobFilter, JobRow
from warrener_store.opening import open_store_on_demand
from warrener_store.parked.rows import ParkedFilter, ParkedMessage
from warrener_store.sessions.rows import SessionRow

if TYPE_CHECKING:  # it imports the ports of all aggregates
    from warrener_store import StateStore, Store

_START_TIMEOUT = 6.0  # seconds
_NO_PERMISSION = "42501"  # SQLSTATE
_PROBE = "warrener-doctor"
_PROBE_SIZE = 16_384  # bytes; less may find room in a page of the database though its disk is full
_MAX_INCIDENTS, _MAX_IN_TROUBLE, _MAX_GIVEN_BACK = 1000, 10, 200
_MIXED_QUEUE_PERIOD = timedelta(minutes=7)  # an agent returns an unknown job every five
_WAITING = (JobState.QUEUED, JobState.RETRYING)
_MAX_SKEW = timedelta(seconds=1)


async def check_store(url: str) -> AsyncIterator[CheckResult]:
    """Run all checks of the store."""
    try:
        store = open_store_on_demand(url)
    except StoreError as error:
        yield _failure(error)
        return
    try:
        async with asyncio.timeout(_START_TIMEOUT):
            await store.start()
        yield ok("store", f"{mask(url)} answers, and its tables are those of this version")
        yield await check_writes(store)
        yield await check_clocks(url, store)
        async for result in _check_contents(store):
            yield result
    except StoreError as error:
        yield _failure(error)
    except OSError as error:  # TimeoutError is one
        reason = str(error) or f"no answer within {_START_TIMEOUT:g} s"
        yield failed("store", f"{mask(url)}: {reason}", "check that the database runs, and its URL")
    finally:
        await store.close()


def _failure(error: StoreError) -> CheckResult:
    reported = store_error(error)
    return failed("store", reported.sentence, reported.do or "see its log")


async def try_write(store: "Store") -> None:
    """Commit a write, and delete it again; of a session if the user has the role of the console, which may
    park nothing. Raises StoreError."""
    try:
        await _try_parking(store)
    except StoreRefused as error:
        if getattr(error.__cause__, "sqlstate", None) != _NO_PERMISSION:
            raise
        now = await store.time()
        text = os.urandom(_PROBE_SIZE).hex()
        row = SessionRow(
            session_key=_PROBE,
            actor=_PROBE,
            role="",
            method="",
            credential=text,
            opened_at=now,
            expires_at=now,
        )
        await store.open_session(row)
        await store.end_session(_PROBE)


async def _try_parking(store: "Store") -> None:
    probe = ParkedMessage(
        parked_id=_PROBE,
        queue=_PROBE,
        reason="probe",
        detail="written by `warrener doctor`",
        content_type=None,
        body=os.urandom(_PROBE_SIZE),
        parked_at=await store.time(),
    )
    await store.park([probe])
    await store.forget_parked(await store.parked(ParkedFilter(ids=[_PROBE])))


async def check_writes(store: "Store") -> CheckResult:
    """Require that a write is committed."""
    try:
        await store.ping()
        await try_write(store)
    except StoreError as error:
        reported = store_error(error)
        return failed(
            "store writes",
            f"the store takes no writes: {reported.sentence}",
            "make it writable, or make room on its disk; services go on by themselves",
        )
    return ok("store writes", "a write was committed, and deleted again")


async def check_clocks(url: str, store: "StateStore") -> CheckResult:
    """Compare this machine's clock with the database's."""
    if url.startswith("sqlite"):
        return ok("clocks", "the store is a file, with this machine's clock")
    before = datetime.now(UTC)
    theirs = await store.time()
    after = datetime.now(UTC)
    return clocks(before + (after - before) / 2, theirs)


def clocks(ours: datetime, theirs: datetime) -> CheckResult:
    """Require clocks that differ by less than a second."""
    apart = ours - theirs
    if abs(apart) < _MAX_SKEW:
        return ok("clocks", f"this machine and the database are {abs(apart.total_seconds()):.2f} s apart")
    which = "ahead of" if apart > timedelta(0) else "behind"
    return failed(
        "clocks",
        f"this machine is {span(apart)} {which} the database",
        "let a time service (NTP) set both clocks; /ready of each service reports the skew of its host",
    )


async def _check_contents(store: "Store") -> AsyncIterator[CheckResult]:
    now = datetime.now(UTC)
    living, types = await store.agents(), await store.job_types()
    yield agents(living, now)
    for result in check_agents_in_trouble(living, now):
        yield result
    yield check_served_types(living, list(types.values()), now)
    open_incidents = await store.escalations.incidents(IncidentFilter(limit=_MAX_INCIDENTS))
    for incident in open_incidents:
        is_recent = incident.kind == MIXED_QUEUE and now - incident.last_seen_at <= _MIXED_QUEUE_PERIOD
        if is_recent and (mixed := check_mixed_queue(incident, await _given_back(store, incident))):
            yield mixed
    for result in check_refused_pieces(open_incidents, now):
        yield result
    if parked := await store.parked(limit=1):
        yield warning(
            "parked", f"messages are parked, the last one {ago(parked[0].parked_at, now)}", "warrener parked"
        )


def agents(known: Sequence[AgentRow], now: datetime) -> CheckResult:
    """Require a live agent."""
    alive = [row for row in known if now - row.last_seen_at <= SILENT_AFTER]
    if alive:
        slots, running = sum(row.slots for row in alive), sum(row.running for row in alive)
        return ok("agents", f"{len(alive)} alive, {running} attempts running, {slots} slots")
    last = f"; the last heartbeat was {ago(known[0].last_seen_at, now)}" if known else ""
    return failed("agents", f"no agent is alive{last}", "start one: `warrener agent MODULE`")


def check_agents_in_trouble(known: Sequence[AgentRow], now: datetime) -> list[CheckResult]:
    """Fail for live agents that take no attempts, for a reason that their heartbeats name."""
    return [
        failed(
            "agent", f"{row.agent_id} takes no attempts: {row.trouble}", f"warrener explain {row.agent_id}"
        )
        for row in known
        if row.trouble and now - row.last_seen_at <= SILENT_AFTER
    ][:_MAX_IN_TROUBLE]


async def _given_back(store: "Store", incident: IncidentRow) -> list[JobRow]:
    """The jobs that agents of the queue have given back, and that wait for another one."""
    which = JobFilter(states=_WAITING, job_type=incident.job_type, limit=_MAX_GIVEN_BACK)
    here = [row for row in await store.list_jobs(which) if row.queue == incident.subject]
    return [row for row in here if row.error is not None and is_unrunnable_here(row.error)]


def check_mixed_queue(incident: IncidentRow, waiting: Sequence[JobRow]) -> CheckResult | None:
    """Fail for a queue in which jobs wait because none of its agents has their type, or code that fits the
    journal of a workflow; None once they have gone on."""
    errors = [row.error for row in waiting if row.error is not None]
    if errors and errors[0].type == CODE_CHANGED:
        many = f"{counted(len(waiting), 'job')} of {incident.job_type}"
        what = f"{many} cannot go on with the code of queue {incident.subject}: {errors[0].message}"
        return failed("changed code", what, f"warrener explain {waiting[0].job_id}")
    what = str(incident.sample.get("text", incident.subject))
    do = f"start an agent of queue {incident.subject} that knows {incident.job_type}"
    return failed("mixed queue", what, do) if waiting else None


def check_refused_pieces(open_incidents: Sequence[IncidentRow], now: datetime) -> list[CheckResult]:
    """Fail for each piece of the topology that the broker refuses to a scheduler or a supervisor."""
    advised = (text.partition("; ") for text in still_refused(open_incidents, now).values())
    return [failed("refused piece", message, do) for message, _, do in advised][:_MAX_IN_TROUBLE]


def check_served_types(known: Sequence[AgentRow], types: Sequence[JobTypeRow], now: datetime) -> CheckResult:
    """Require an agent for the queue of every job type."""
    queues = {queue for row in known if now - row.last_seen_at <= SILENT_AFTER for queue in row.queues}
    orphans = sorted(row.name for row in types if row.queue not in queues)
    if not types:
        return warning("job types", "none has been announced", "start an agent: it announces what it can run")
    if orphans:
        return warning(
            "job types", f"no agent serves the queue of {', '.join(orphans[:5])}", "start an agent for them"
        )
    return ok("job types", f"{len(types)}, each with an agent that serves its queue")
