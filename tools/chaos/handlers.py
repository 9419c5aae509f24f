"""The handlers of the chaos run. Each execution writes into the effect ledger; `book` also inserts a row by
the ledger's transaction. A handler returns the name of its run, so the accepted result says which it was."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tools.chaos.effects import FOLDER, EffectWriter, Run

from warrener_agent import Agent, Backoff, JobContext
from warrener_agent.definitions.job import JobOptions

agent = Agent()
_writer = EffectWriter(Path(os.environ.get(FOLDER, ".")))
_SOON = Backoff.fixed(1, jitter=0.2)
_BEAT = 0.05  # seconds between two proofs that a handler executes
# Losses and deaths of agents are what the harness brings about: they must not use up a job.
SURVIVES: JobOptions = {"backoff": _SOON, "max_attempts": 8, "max_lost_attempts": 1000, "max_crashes": 1000}


class Unlucky(Exception):
    """Another attempt will do better."""


def begin(job: JobContext) -> Run:
    """Record the start of an execution."""
    return _writer.begin(str(job.job_id), job.attempt, job.idempotency_key)


@asynccontextmanager
async def recorded(job: JobContext) -> AsyncGenerator[Run]:
    """Record start and end of an execution."""
    run = begin(job)
    try:
        yield run
    except Exception:
        run.record("failed")
        raise
    except BaseException:  # cancelled by the agent, or its lease has ended
        run.record("stopped")
        raise
    run.record("done")


async def work(run: Run, seconds: float) -> None:
    """Work for so long, with a proof of it every 50 ms."""
    end = asyncio.get_running_loop().time() + seconds
    while (left := end - asyncio.get_running_loop().time()) > 0:
        await asyncio.sleep(min(left, _BEAT))
        run.record("work")


@agent.job("chaos.short", queue="alpha", **SURVIVES)
async def short(job: JobContext, *, seconds: float = 0.0, fails: int = 0) -> str:
    async with recorded(job) as run:
        await work(run, seconds)
        if job.attempt <= fails:
            raise Unlucky(f"attempt {job.attempt} of {fails + 1}")
        return run.name


@agent.job("chaos.shared", queue="alpha", **SURVIVES | {"dispatch_batch": 16})
async def shared(job: JobContext, *, seconds: float = 0.0) -> str:
    async with recorded(job) as run:
        await work(run, seconds)
        return run.name


@agent.job("chaos.book", queue="beta", guarantee="transactional", **SURVIVES)
async def book(job: JobContext, *, seconds: float = 0.0, children: int = 0) -> str:
    """Its row, its result and its child jobs commit together."""
    async with recorded(job) as run:
        transaction = await job.transaction()
        await transaction.execute(
            "INSERT INTO chaos_effects (job_id, attempt, run) VALUES (:job, :attempt, :run)",
            {"job": str(job.job_id), "attempt": job.attempt, "run": run.name},
        )
        await work(run, seconds)
        for number in range(children):
            job.request("chaos.child", {"parent": str(job.job_id)}, key=f"child-{number}")
        return run.name


@agent.job("chaos.child", queue="alpha", **SURVIVES)
async def child(job: JobContext, parent: str) -> str:
    async with recorded(job) as run:
        return run.name


@agent.job("chaos.exclusive", queue="gamma", guarantee="exclusive", **SURVIVES)
async def exclusive(job: JobContext, *, seconds: float = 0.0) -> str:
    async with recorded(job) as run:
        await work(run, seconds)
        return run.name


@agent.job("chaos.long", queue="gamma", **SURVIVES)
async def long(job: JobContext, *, seconds: float = 5.0) -> str:
    async with recorded(job) as run:
        await work(run, seconds)
        return run.name


@agent.job("chaos.process", queue="gamma", executor="process", **SURVIVES | {"environment": (FOLDER,)})
def process(job: JobContext, *, seconds: float = 0.0) -> str:
    run = begin(job)
    threading.Event().wait(seconds)
    run.record("done")
    return run.name


@agent.job("chaos.tick", queue="alpha", **SURVIVES)
async def tick(job: JobContext) -> str:
    async with recorded(job) as run:
        return run.name


@agent.job(
    "chaos.hopeless", queue="alpha", backoff=_SOON, max_attempts=2, max_lost_attempts=1000, max_crashes=1000
)
async def hopeless(job: JobContext) -> str:
    async with recorded(job):
        raise Unlucky("no attempt does better")


@agent.job(
    "chaos.backlog",
    queue="delta",
    start_timeout="2s",
    backoff=_SOON,
    max_attempts=8,
    max_lost_attempts=1000,
    max_crashes=1000,
)
async def backlog(job: JobContext, *, seconds: float = 0.5) -> str:
    """Waits in its queue for longer than `start_timeout` where many are requested at once."""
    async with recorded(job) as run:
        await work(run, seconds)
        return run.name


@agent.job(
    "chaos.crash_child",
    queue="poison",
    executor="process",
    environment=(FOLDER,),
    backoff=_SOON,
    max_attempts=9,
    max_crashes=2,
)
def crash_child(job: JobContext) -> str:
    """Kills the process that executes it."""
    begin(job)
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


@agent.job(
    "chaos.crash_agent", queue="poison", backoff=_SOON, max_attempts=9, max_crashes=1, max_lost_attempts=2
)
async def crash_agent(job: JobContext) -> str:
    """Kills its agent, and all that runs beside it is lost."""
    begin(job)
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


@agent.job("chaos.block", queue="gamma", **SURVIVES)
async def block(job: JobContext, *, seconds: float = 5.0) -> str:
    """Blocks its agent's event loop, as a mistaken handler would."""
    run = begin(job)
    threading.Event().wait(seconds)
    run.record("done")
    return run.name
