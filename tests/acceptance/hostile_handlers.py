"""Handlers that do what no handler should, each in its own way, and two that only want to work."""

import asyncio
import ctypes
import os
import signal
import time
from datetime import timedelta
from pathlib import Path

from warrener_agent import Agent, JobContext, Limits, Program

agent = Agent()
MIB = 1 << 20
LIMIT = timedelta(seconds=15)
"""Of what hangs. A busy machine may take some of it before the handler has begun to."""


@agent.job("neighbour.coroutine")
async def neighbour_coroutine(until: Path) -> float:
    """Works until it is told; returns the longest time for which it could not."""
    longest, last = 0.0, time.monotonic()
    while not until.exists():  # noqa: ASYNC240 - a look at a local file
        await asyncio.sleep(0.01)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    return longest


@agent.job("neighbour.process", executor="process")
def neighbour_process(until: Path) -> float:
    """The same in a child process, which hostile neighbours may meet in the pool."""
    longest, last = 0.0, time.monotonic()
    while not until.exists():
        time.sleep(0.01)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    return longest


@agent.job("warm.up", executor="process")
def warm_up(here: Path, others: int) -> None:
    """Each of so many in a child of its own: none of them ends before all have begun."""
    (here / str(os.getpid())).touch()
    while len(list(here.iterdir())) < others:
        time.sleep(0.05)


@agent.job("short", executor="process")
def short() -> int:
    return os.getpid()


@agent.job("hostile.spins", executor="process", timeout=LIMIT, max_attempts=1)
def spins(job: JobContext) -> None:
    print("about to spin")
    job.progress(0.25, "spinning")
    while True:
        pass


@agent.job("hostile.sleeps", executor="process", timeout=LIMIT, max_attempts=1)
def sleeps() -> None:
    """In C, and without ever giving the interpreter away."""
    while True:
        ctypes.PyDLL(None).usleep(900_000_000)


@agent.job("hostile.forks", executor="process", timeout=LIMIT, max_attempts=1)
def forks(pids: Path) -> None:
    """Children that ignore SIGTERM, one of them in a session of its own."""
    for session in (False, True):
        if os.fork() == 0:
            if session:
                os.setsid()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            with pids.open("a") as file:
                file.write(f"{os.getpid()}\n")
            while True:
                time.sleep(60)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(60)


@agent.job(
    "hostile.allocates", executor="process", timeout=60, max_attempts=1, limits=Limits(memory="256MiB")
)
def allocates() -> None:
    """Without end, in several processes, so that no limit of a single one is met."""
    here, there = os.pipe()
    is_child = any(os.fork() == 0 for _ in range(3))
    os.close(there)
    if is_child:
        os.read(here, 1)  # until all of them are there, and have closed the other end
    blocks: list[bytearray] = []
    while True:
        blocks.append(bytearray(os.urandom(MIB)))
        time.sleep(0.005)


@agent.job("hostile.dies", executor="process", max_attempts=1)
def dies(how: str) -> None:
    print(f"about to die by {how}")
    if how.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[how])
        time.sleep(60)
    os._exit(int(how))


@agent.job("hostile.waits")
async def waits(job: JobContext) -> None:
    """A coroutine that hangs: what it waits for is to be told."""
    job.progress(0.75, "nearly there")
    await the_bank()


async def the_bank() -> None:
    await asyncio.Event().wait()


agent.command(
    "hostile.program",
    Program(["sh", "-c", "echo about to hang >&2; trap '' TERM; sleep 600 & setsid sleep 600; sleep 600"]),
    result=None,
    timeout=LIMIT,
    max_attempts=1,
)
