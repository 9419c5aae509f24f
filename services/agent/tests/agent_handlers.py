"""Handlers of all kinds, many of which misbehave; child processes import this module by its name."""

import asyncio
import ctypes
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from datetime import date
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path

from opentelemetry import baggage, trace

from warrener_agent import Agent, JobContext, Limits, Recycle

agent = Agent()
release = threading.Event()
SMALL = Limits(memory="256MiB")
MIB = 1 << 20


@agent.job("waits", executor="process")
async def waits(job: JobContext) -> int:
    await asyncio.sleep(0)
    transaction = await job.transaction()
    await transaction.execute("CREATE TABLE effects (note TEXT)")
    return job.attempt


@agent.job("load", executor="process", no_retry_on=(KeyError,))
def load(job: JobContext, note: str) -> dict[str, object]:
    job.progress(0.5, "half")
    transaction = job.transaction_sync()
    transaction.execute("CREATE TABLE IF NOT EXISTS effects (note TEXT)")
    rows = [{"note": note}, {"note": note + "!"}]
    transaction.execute("INSERT INTO effects VALUES (:note)", rows)
    values = {"a": b"\x00\xff", "b": date(2026, 1, 2), "c": Decimal("1.5")}
    (row,) = transaction.execute("SELECT :a AS a, :b AS b, :c AS c", values)
    assert row["a"] == b"\x00\xff"
    child_job_id = job.request("other", {"$type": "date", "value": "not ours to read"}, key="k")
    if note == "caught":
        try:
            transaction.execute("SELECT 1 FROM nowhere")
        except sqlite3.OperationalError as error:
            return {"caught": str(error)}
    if note == "raise":
        raise KeyError(note)
    return {"asked": str(child_job_id), "b": row["b"], "$type": "date"}


@agent.job("thread")
def thread(job: JobContext, note: str) -> str:
    job.progress(1.0)
    job.request("other")
    transaction = job.transaction_sync()
    transaction.execute("CREATE TABLE effects (note TEXT)")
    transaction.execute("INSERT INTO effects VALUES (:note)", {"note": note})
    return threading.current_thread().name


@agent.job("blocks")
def blocks(job: JobContext) -> str:
    """A thread that does not listen until it is let go, and then tries to write."""
    job.progress(0.1, "blocked")
    release.wait()
    try:
        job.transaction_sync().execute("CREATE TABLE effects (note TEXT)")
    except Exception as error:
        job.progress(0.9, str(error))
        raise
    return "too late"


# -- handlers that misbehave, each in its own way ---------------------------------------------------------


@agent.job("neighbour")
async def neighbour(job: JobContext, until: Path) -> int:
    """It works on, as long as the others misbehave."""
    done = 0
    while not await asyncio.to_thread(until.exists):
        await asyncio.sleep(0.01)  # its work; it ends by the fact that the file is there
        done += 1
    return done


def _sign(pids: Path) -> None:
    """Say that this process is where it hangs from now on."""
    with pids.open("a") as file:
        file.write(f"{os.getpid()}\n")


@agent.job("spins", executor="process")
def spins(job: JobContext, pids: Path) -> None:
    print("about to spin", flush=True)
    job.progress(0.25, "spinning")
    _sign(pids)
    while True:
        pass


@agent.job("sleeps_in_c", executor="process")
def sleeps_in_c(pids: Path) -> None:
    _sign(pids)
    while True:
        ctypes.PyDLL(None).usleep(900_000_000)


@agent.job("waits_in_tasks", executor="process")
async def waits_in_tasks(pids: Path) -> None:
    async def inner() -> None:
        _sign(pids)
        await asyncio.sleep(600)  # the fault: it never ends by itself

    async with asyncio.TaskGroup() as group:
        group.create_task(inner(), name="the one that waits")


@agent.job("forks", executor="process")
def forks(pids: Path) -> None:
    """It forks children that ignore SIGTERM, one of them in a session of its own."""
    for session in (False, True):
        if os.fork() == 0:
            if session:
                os.setsid()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            _sign(pids)
            while True:
                time.sleep(60)  # the fault: it never ends by itself
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _sign(pids)
    while True:
        time.sleep(60)  # the fault, as above


@agent.job("allocates", executor="process", limits=SMALL)
def allocates() -> None:
    chunks: list[bytearray] = []
    while True:
        chunks.append(bytearray(b"x" * MIB))


@agent.job("allocates_below", executor="process", limits=SMALL)
def allocates_below() -> None:
    """In several children, each of which stays below the limit."""
    for _ in range(4):
        if os.fork() == 0:
            chunks = bytearray(os.urandom(MIB)) * 150
            time.sleep(600)  # it keeps its memory until the limit of all together ends it
            del chunks
    time.sleep(600)  # and the first process waits with it


@agent.job("burns", executor="process", limits=Limits(cpu="1s"))
def burns() -> None:
    while True:
        pass


@agent.job("burns_below", executor="process", limits=Limits(cpu="1s"))
def burns_below() -> None:
    """In a child that ignores what the kernel says."""
    if os.fork() == 0:
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        while True:
            pass
    time.sleep(600)  # and the first process waits with it


@agent.job("multiplies", executor="process", limits=Limits(processes=3))
def multiplies() -> None:
    for _ in range(5):
        if os.fork() == 0:
            time.sleep(600)
    time.sleep(600)


@agent.job("opens", executor="process", limits=Limits(open_files=40))
def opens() -> int:
    return len([open(os.devnull) for _ in range(100)])  # noqa: PTH123


@agent.job("writes", executor="process", limits=Limits(file_size="1KiB"))
def writes(path: Path) -> int:
    return path.write_bytes(b"x" * 10_000)


@agent.job("dies", executor="process")
def dies(job: JobContext, how: str) -> None:
    job.transaction_sync().execute("CREATE TABLE effects (note TEXT)")
    print(f"about to die by {how}", file=sys.stderr)
    if how == "polite":
        raise SystemExit(how)
    if how.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[how])
        time.sleep(60)
    os._exit(int(how))


@agent.job("leaves", executor="process")
def leaves(*, fail: bool = False) -> list[int]:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    if fail:
        raise RuntimeError(str(child.pid))
    return [os.getpid(), child.pid]


@agent.job("uses_a_pool", executor="process", limits=Limits(memory="1GiB", cpu="60s", processes=8))
def uses_a_pool() -> list[int]:
    with get_context("fork").Pool(2) as pool:
        return pool.map(abs, [-1, -2, -3])


@agent.job("recycled", executor="process", recycle=Recycle(jobs=2))
def recycled() -> int:
    return os.getpid()


@agent.job("grows", executor="process", recycle=Recycle(memory="150MiB"))
def grows(mib: int) -> int:
    _retained.append(bytearray(b"x" * MIB) * mib)
    return os.getpid()


_retained: list[bytearray] = []


@agent.job("looks", executor="process", environment=("SHOP_TOKEN",), umask=0o077)
def looks(path: Path) -> dict[str, str]:
    path.touch()
    return dict(os.environ)


@agent.job("needs_a_variable", executor="process")
def needs_a_variable() -> str:
    return os.environ["SHOP_DATABASE"]


def trace_of_handler() -> list[str | None]:
    """The span and the baggage of this handler, and the variables that its processes inherit."""
    span_id = trace.get_current_span().get_span_context().span_id
    tenant = baggage.get_baggage("tenant")
    return [f"{span_id:016x}", str(tenant), os.environ.get("TRACEPARENT"), os.environ.get("BAGGAGE")]


@agent.job("traced_child", executor="process")
def traced_child() -> list[str | None]:
    return trace_of_handler()


@agent.job("traced_async_child", executor="process")
async def traced_async_child() -> list[str | None]:
    return trace_of_handler()


@agent.job("is_no_one", executor="process", user="no-such-user-here")
def is_no_one() -> None: ...


@agent.job("lives_on", executor="process", recycle=Recycle(jobs=1), restart="always")
def lives_on() -> int:
    return os.getpid()


@agent.job("dies_alone", executor="process", restart="no")
def dies_alone() -> None:
    os._exit(7)
