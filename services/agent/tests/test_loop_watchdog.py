"""A coroutine that blocks its agent's event loop ends the agent, and is named (point 4 of supervision)."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from services.agent.tests.stage import Stage

from warrener_agent import Agent, gil_stall_watcher
from warrener_agent.loop_watchdog import LoopStallDetector, SlotLimiter, stall_limit
from warrener_agent.run_table import RunTable

Look = tuple[float, bool, Any]
"""When a watcher looks, whether the loop has turned since, and what it is at."""
SPINS = [(1 + second, False, "spins") for second in range(10)]


@pytest.mark.parametrize(
    ("looks", "blocked"),
    [
        ([(0, True, None), *SPINS, (11, False, "spins")], True),
        ([(0, True, None), *SPINS], False),
        ([(second, second % 8 == 0, "spins") for second in range(100)], False),
        ([(second, second % 8 == 0, None) for second in range(100)], False),
        ([(0, True, None), *((1 + second, False, second // 8) for second in range(100))], False),
        ([(0, True, None), (1, False, "spins"), (3601, False, "spins"), (3602, True, None)], False),
        ([(-1, True, None), *((second * 60, False, "spins") for second in range(5))], False),
    ],
    ids=[
        "at one thing for longer than the limit",
        "at one thing for as long",
        "it turns once in a while, in a task",
        "it turns once in a while, in no task",
        "from one thing to the next it is slow",
        "frozen for an hour in the midst of a turn",
        "four times frozen, it counts for 8 s at most",
    ],
)
def test_4_a_loop_that_is_at_one_thing_for_longer_than_somebody_could_see_is_blocked(
    looks: list[Look], *, blocked: bool
) -> None:
    detector = LoopStallDetector(limit=10.0, max_step=2.0)
    seen = [detector.check(now, turned=turned, activity=activity) for now, turned, activity in looks]
    assert any(seen) is blocked
    assert not any(seen[:-1])


def test_4_a_loop_that_the_machine_gives_no_time_is_not_blocked() -> None:
    detector = LoopStallDetector(limit=10.0, max_step=2.0)
    starved = [detector.check(n, turned=False, activity="works", waited=0.95) for n in range(150)]
    assert not any(starved), "7.5 s of its own in 150"
    assert any(detector.check(150 + n, turned=False, activity="works") for n in range(5)), "then it spins"


def test_4_a_starved_agent_takes_fewer_attempts_and_more_again_once_its_loop_turns() -> None:
    running = RunTable(8)
    limiter = SlotLimiter(running)
    for _ in range(50):
        limiter.check(turned=False, starved=False)
    assert running.free("default") == 8, "a handler blocks the loop: that is no want of processor time"
    seen: list[int] = []
    for _ in range(20):
        limiter.check(turned=False, starved=True)
        seen.append(running.free("default"))
    assert list(dict.fromkeys(seen)) == [8, 4, 2, 1], "one is left, so that the work goes on"
    for _ in range(200):
        limiter.check(turned=True, starved=True)
    assert running.free("default") == 8


EXTENDED = """
import ctypes, os, re, sys, threading, time
from warrener_agent.gil_stall_watcher import ProcessorWait
from warrener_agent.loop_watchdog import GilStallTimer

timer, pause = GilStallTimer(), threading.Event()
timer.arm(time.monotonic() + 2)

def extend():
    while not pause.wait(0.1):
        timer.extend(time.monotonic() + 2)

extending = threading.Thread(target=extend, daemon=True)
"""
STARVED = f"""{EXTENDED}
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
agent = os.getpid()
for _ in range(4):
    if not os.fork():
        while os.getppid() == agent: pass
        os._exit(0)
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
extending.start()
wait, stood, turned_at = ProcessorWait(agent, threading.get_native_id()), 0.0, time.monotonic()
while stood < 3.0:
    now = time.monotonic()
    stood, turned_at = max(stood, now - turned_at), now
wait.seconds()
print("starved for the share", wait.share, flush=True)
os.killpg(0, 9)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone counts what a thread waits for a processor")
def test_4_a_process_that_the_machine_gives_no_time_is_not_ended_for_it() -> None:
    """On a real machine: busy processes of a higher class at the processor that it may use."""
    process = subprocess.Popen(
        [sys.executable, "-c", STARVED], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    words, _, share = process.communicate(timeout=120)[0].rpartition(" ")
    assert words == "starved for the share"
    assert float(share) > 0.5


def test_4_only_what_waits_for_the_machine_gets_more_time() -> None:
    """A call that computes and lets nobody else run would outlive its leases, and another agent run its jobs
    beside it. No loop is called blocked for good within two leases."""
    assert gil_stall_watcher.end_time(100, owed=30, computed=0.2) == 130
    assert gil_stall_watcher.end_time(100, owed=30, computed=0.6) == 100
    assert stall_limit(30.0, lease=6.0) == 30.0
    assert stall_limit(5.0, lease=6.0) == 12.0


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone counts the switches of a thread")
@pytest.mark.parametrize(("pauses", "seized"), [(False, True), (True, False)])
def test_4_a_thread_in_a_long_call_is_distinguished_from_one_that_waits_at_times(
    *, pauses: bool, seized: bool
) -> None:
    wait, before = gil_stall_watcher.ProcessorWait(os.getpid()), time.thread_time()
    while time.thread_time() - before < 0.4:
        sum(range(20_000))
        if pauses:
            threading.Event().wait(0.0001)
            wait.seconds()
    wait.seconds()
    assert (wait.computed > 0.2) is seized


def test_4_pressure_on_the_control_group_counts_as_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pressure = tmp_path / "cpu.pressure"

    def pressure_file(pid: int) -> str:
        return str(pressure)

    def stall(seconds: float) -> None:
        pressure.write_text(f"some avg10=9.00 total=9000000\nfull avg10=1.00 total={seconds * 1e6:.0f}\n")

    monkeypatch.setattr(gil_stall_watcher, "_pressure_file", pressure_file)
    stall(40)
    wait, waits = gil_stall_watcher.ProcessorWait(pid=0), list[float]()
    for seconds in (40, 42, 42, 43.5):
        stall(seconds)
        waits.append(wait.seconds())
    assert waits == [0.0, 2.0, 0.0, 1.5]
    assert wait.share > 0.5, "in a moment"


@pytest.mark.parametrize(("blocked_after", "watchers"), [(30.0, 1), (0.0, 0)])
async def test_4_the_watch_ends_with_its_agent_and_0_means_none(
    stage: Stage, blocked_after: float, watchers: int
) -> None:
    agent, codes = Agent(), list[int]()

    @agent.job("quick")
    async def quick() -> None: ...

    one = await stage.enter(agent, end_process=codes.append, agent_block_timeout=blocked_after)
    watching = [each for each in threading.enumerate() if each.name == "watch over the loop"]
    assert len(watching) == watchers
    await stage.leave(one)
    for each in watching:
        each.join(20)
        assert not each.is_alive()
    assert not codes


STALLED = f"""{EXTENDED}
extending.start()
threading.Event().wait(2.5)
print("extended", flush=True)
sys.stdin.readline()

def computes():
    re.match("(a+)+$", "a" * 60 + "b")

def waits():
    ctypes.PyDLL(None).usleep(900_000_000)

if len(sys.argv) > 1:
    globals()[sys.argv[1]]()
timer.disarm()
"""


def start_stalled(*arguments: str) -> subprocess.Popen[str]:
    """It has put the timer off for longer than that lasts, and waits for a line."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-c", STALLED, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "extended\n", "as long as Python runs, it goes on"
    return process


@pytest.mark.parametrize("how", ["computes", "waits"])
def test_4_a_call_into_c_that_lets_nobody_else_run_ends_with_its_stack(how: str) -> None:
    process = start_stalled(how)
    _, output = process.communicate("go on\n", timeout=60)
    assert process.returncode == -signal.SIGVTALRM
    assert f"in {how}" in output


def test_4_a_process_that_was_stopped_is_not_ended_for_it() -> None:
    process = start_stalled()
    process.send_signal(signal.SIGSTOP)
    threading.Event().wait(4)  # longer than it could put the timer off
    process.send_signal(signal.SIGCONT)
    process.communicate("go on\n", timeout=60)
    assert process.returncode == 0
