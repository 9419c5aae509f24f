"""A coroutine that blocks its agent's event loop ends the agent, and is named (point 4 of supervision)."""

import signal
import subprocess
import sys
import threading
from typing import Any

import pytest
from services.agent.tests.stage import Stage

from warrener_agent import Agent, loop_watchdog
from warrener_agent.loop_watchdog import LoopStallDetector, stall_limit
from warrener_agent.run_table import RunTable
from warrener_agent.starvation import SlotLimiter
from warrener_contracts.events import AttemptFailed, AttemptSucceeded, ErrorKind
from warrener_runtime.lifecycle.run import ServiceExitCode


def seen(*looks: tuple[float, bool, Any]) -> list[bool]:
    """What a watcher says, whose limit is 10 seconds and who looks every second; looks are when, whether the
    loop has turned since, and what it is at."""
    detector = LoopStallDetector(limit=10.0, max_step=2.0)
    return [detector.check(now, turned=turned, activity=activity) for now, turned, activity in looks]


def test_4_a_loop_that_is_at_one_thing_for_longer_than_the_limit_is_blocked() -> None:
    output = seen((0, True, None), *((1 + second, False, "spins") for second in range(11)))
    assert output == [*[False] * 11, True], "11 s of silence, of which the first look saw the beginning"


@pytest.mark.parametrize("activity", ["spins", None], ids=["in a task", "in no task"])
def test_4_a_loop_that_turns_once_in_a_while_is_not(activity: str | None) -> None:
    assert not any(seen(*((second, second % 8 == 0, activity) for second in range(100))))


def test_4_a_loop_that_goes_from_one_thing_to_the_next_is_slow_and_not_blocked() -> None:
    assert not any(seen((0, True, None), *((1 + second, False, second // 8) for second in range(100))))


def test_4_what_nobody_was_awake_to_see_does_not_count() -> None:
    frozen = [(0, True, None), (1, False, "spins"), (3601, False, "spins"), (3602, True, None)]
    assert not any(seen(*frozen)), "frozen for an hour in the midst of a turn, and well afterwards"
    often = [(second * 60, False, "spins") for second in range(5)]
    assert not any(seen((-1, True, None), *often)), "four times frozen: 8 s at most"


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


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone counts what a thread waits for a processor")
def test_4_a_thread_that_shares_its_processor_with_busy_ones_has_waited_for_it() -> None:
    """On a real machine: all at one processor, and the thread has work without end."""
    script = """
import os, threading
from warrener_agent.starvation import RunQueueWait
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for _ in range(4):
    if not (child := os.fork()):
        while os.getppid() != 1: pass
        os._exit(0)
wait, waited = RunQueueWait(threading.get_native_id()), 0.0
while waited < 0.5:
    waited += wait.seconds()
print("starved", flush=True)
os.killpg(0, 9)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.communicate(timeout=120)[0] == "starved\n"


def test_4_no_loop_is_called_blocked_for_good_within_two_leases() -> None:
    assert stall_limit(30.0, lease=6.0) == 30.0
    assert stall_limit(5.0, lease=6.0) == 12.0


async def test_4_an_attempt_that_blocks_the_loop_is_recorded_as_failed_and_reported_with_its_stack(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its leases last: an agent ends without a report if they are over before it is written.
    monkeypatch.setattr(loop_watchdog, "_MIN_LEASES", 0.0)
    agent, ended = Agent(), threading.Event()
    codes: list[int] = []

    def end(code: int) -> None:
        """In place of the end: the handler lets go, and the agent lives to tell."""
        codes.append(code)
        ended.set()

    @agent.job("blocks")
    async def blocks() -> str:
        assert ended.wait(60), "nobody has noticed"  # as in a call into C: nothing else gets a turn
        return "it was nothing"

    @agent.job("neighbour")
    async def neighbour() -> int:
        return 1

    await stage.enter(
        agent, end_process=end, ledger_url=stage.ledger_url, agent_claim_ttl=600.0, agent_block_timeout=4.0
    )
    hostile = await stage.dispatch("blocks")
    beside = await stage.dispatch("neighbour")
    error = (await stage.wait_for_event(AttemptFailed, hostile)).data.error
    assert codes == [ServiceExitCode.BLOCKED]
    assert (error.kind, error.type) == (ErrorKind.CRASH, "Blocked")
    assert error.message.startswith("expected it to await now and then, it kept the event loop of its agent")
    assert error.flight_record is not None
    assert error.flight_record.stacks is not None
    assert "in blocks" in error.flight_record.stacks
    assert (await stage.wait_for_event(AttemptSucceeded, beside)).data.result == 1
    assert not stage.of(AttemptSucceeded, hostile), "what it said afterwards counts for nothing"


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


STALLED = """
import ctypes
import re
import sys
import threading
import time

from warrener_agent.loop_watchdog import GilStallTimer

timer = GilStallTimer()
timer.arm(time.monotonic() + 2)

def extend():
    pause = threading.Event()
    while not pause.wait(0.1):
        timer.extend(time.monotonic() + 2)

threading.Thread(target=extend, daemon=True).start()
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
