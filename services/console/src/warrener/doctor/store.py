"""Checks of the store: reachable, migrated, clocks; and what it says of the agents."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

import asyncpg

from warrener.doctor.check_result import CheckResult, failed, ok, warning
from warrener.render.tables import SILENT_AFTER
from warrener.render.times import ago, span
from warrener.store_errors import command_error_from
from warrener_runtime.settings import mask
from warrener_store import StateStore, Store, StoreError, open_store
from warrener_store.agents.rows import AgentRow, JobTypeRow
from warrener_store.incidents.rows import MIXED_QUEUE, CaseRow

_PATIENCE = timedelta(seconds=15)  # a job that is being published waits for less
_WITHIN = 10.0  # seconds
_CASES = 1000
_GIVEN_BACK_WITHIN = timedelta(minutes=7)  # a job that nobody knows comes again every five
_CLOCKS_APART = timedelta(seconds=1)


async def check_store(url: str) -> AsyncIterator[CheckResult]:
    """Everything that can be asked of the store."""
    try:
        store = open_store(url)
    except StoreError as error:
        yield _failure(error)
        return
    try:
        async with asyncio.timeout(_WITHIN):
            await store.start()
        yield ok("store", f"{mask(url)} answers, and its tables are those of this version")
        yield await check_clocks(url, store)
        async for result in _check_contents(store):
            yield result
    except StoreError as error:
        yield _failure(error)
    except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        reason = str(error) or f"no answer within {_WITHIN:g} s"
        yield failed("store", f"{mask(url)}: {reason}", "look whether the database runs; check its URL")
    finally:
        await store.close()


def _failure(error: StoreError) -> CheckResult:
    trouble = command_error_from(error)
    return failed("store", trouble.sentence, trouble.do or "see its log")


async def check_clocks(url: str, store: StateStore) -> CheckResult:
    """This machine's clock against the database's."""
    if url.startswith("sqlite"):
        return ok("clocks", "the store is a file: it has this machine's clock")
    before = datetime.now(UTC)
    theirs = await store.time()
    after = datetime.now(UTC)
    return clocks(before + (after - before) / 2, theirs)


def clocks(ours: datetime, theirs: datetime) -> CheckResult:
    """How far apart two clocks are."""
    apart = ours - theirs
    if abs(apart) < _CLOCKS_APART:
        return ok("clocks", f"this machine and the database are {abs(apart.total_seconds()):.2f} s apart")
    which = "ahead of" if apart > timedelta(0) else "behind"
    return failed(
        "clocks",
        f"this machine is {span(apart)} {which} the database",
        "let a time service (NTP) set both clocks; /ready of each service says how far its host is off",
    )


async def _check_contents(store: Store) -> AsyncIterator[CheckResult]:
    now = datetime.now(UTC)
    living, types = await store.agents(), await store.job_types()
    yield agents(living, now)
    yield check_served_types(living, list(types.values()), now)
    for result in check_mixed_queues(await store.escalations.cases(limit=_CASES), now):
        yield result
    for result in await check_refusing_queues(store, now):
        yield result
    if parked := await store.parked(1):
        yield warning(
            "parked", f"messages are parked, the last one {ago(parked[0].parked_at, now)}", "warrener parked"
        )


async def check_refusing_queues(store: Store, now: datetime) -> list[CheckResult]:
    """The dispatch queues that have not taken a job which was accepted some time ago."""
    queues = [head.queue for head in await store.queue_heads() if head.unpublished]
    first = {queue: await store.unpublished_jobs(queue, now, 1) for queue in queues}
    return [
        warning(
            f"queue {queue}",
            f"does not take its jobs; the first in the store was accepted {ago(rows[0].accepted_at, now)}",
            "look whether it is full (x-max-length) or without a quorum; start agents for it",
        )
        for queue, rows in first.items()
        if rows and now - rows[0].accepted_at > _PATIENCE
    ]


def agents(known: Sequence[AgentRow], now: datetime) -> CheckResult:
    """Whether any agent lives."""
    alive = [row for row in known if now - row.last_seen_at <= SILENT_AFTER]
    if alive:
        slots, running = sum(row.slots for row in alive), sum(row.running for row in alive)
        return ok("agents", f"{len(alive)} alive, {running} attempts running, {slots} slots")
    last = f"; the last one was heard of {ago(known[0].last_seen_at, now)}" if known else ""
    return failed("agents", f"no agent is alive{last}", "start one: `warrener agent MODULE`")


def check_mixed_queues(open_cases: Sequence[CaseRow], now: datetime) -> list[CheckResult]:
    """The queues in which jobs wait for an agent that knows their type, while others serve the queue."""
    return [
        failed(
            "mixed queue",
            str(case.sample.get("text", case.subject)),
            f"start an agent of queue {case.subject} that knows {case.job_type}",
        )
        for case in open_cases
        if case.kind == MIXED_QUEUE and now - case.last_seen_at <= _GIVEN_BACK_WITHIN
    ]


def check_served_types(known: Sequence[AgentRow], types: Sequence[JobTypeRow], now: datetime) -> CheckResult:
    """Whether every job type has an agent that serves its queue."""
    queues = {queue for row in known if now - row.last_seen_at <= SILENT_AFTER for queue in row.queues}
    orphans = sorted(row.name for row in types if row.queue not in queues)
    if not types:
        return warning("job types", "none has been announced", "start an agent: it announces what it can run")
    if orphans:
        return warning(
            "job types", f"no agent serves the queue of {', '.join(orphans[:5])}", "start an agent for them"
        )
    return ok("job types", f"{len(types)}, each with an agent that serves its queue")
