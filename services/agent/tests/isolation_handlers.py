"""Handlers that misbehave, each in its own way, for child processes, which import this module by its name."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

from opentelemetry import baggage, trace

from warrener_agent import Agent, Limits, Recycle

agent = Agent()
MIB = 1 << 20


@agent.job("waits_in_tasks", executor="process")
async def waits_in_tasks(pids: Path) -> None:
    async def inner() -> None:
        pids.write_text(f"{os.getpid()}\n")  # noqa: ASYNC240 - a local file
        await asyncio.sleep(600)  # the fault: it never ends by itself

    async with asyncio.TaskGroup() as group:
        group.create_task(inner(), name="the one that waits")


@agent.job("allocates", executor="process", limits=Limits(memory="256MiB"))
def allocates() -> None:
    """Without end, piece by piece."""
    chunks: list[bytearray] = []
    while True:
        chunks.append(bytearray(b"x" * MIB))


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
    time.sleep(600)


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


@agent.job("gets_on", executor="process", limits=Limits(memory="512MiB", cpu="1s", open_files=64))
def gets_on(burn: float) -> int:
    """It stays within its limits, each time anew."""
    began = time.process_time()
    while time.process_time() - began < burn:
        pass
    return os.getpid()


@agent.job("dies", executor="process")
def dies(how: str) -> None:
    print(f"about to die by {how}", file=sys.stderr)
    if how.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[how])
        time.sleep(60)
    os._exit(int(how))


@agent.job("leaves", executor="process")
def leaves(*, fail: bool = False) -> list[int]:
    """It ends, and what it has started does not."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    if fail:
        raise RuntimeError(str(child.pid))
    return [os.getpid(), child.pid]


@agent.job("uses_a_pool", executor="process", limits=Limits(memory="1GiB", cpu="60s", processes=8))
def uses_a_pool() -> list[int]:
    """What many handlers do, and may."""
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
