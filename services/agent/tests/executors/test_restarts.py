"""A child process that ends is replaced at once, if its job type declares that (issue 4, isolation); a job
type whose processes die too often is suspended."""

import asyncio
from contextlib import suppress

import psutil
import pytest
from services.agent.tests.processes import runs, until
from services.agent.tests.stage import Stage
from structlog.testing import capture_logs

from warrener_agent import Agent, JobDefinitionError, Program, Recycle
from warrener_agent.definitions.isolation import ProcessSettings
from warrener_agent.executors.isolated import RestartLimit, Restarts
from warrener_agent.executors.process import ChildProcess
from warrener_runtime.lifecycle import NotReady
from warrener_runtime.virtual_clock import VirtualClock

MIB = 1 << 20


async def test_a_child_whose_start_is_cancelled_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent ends while a child is replaced."""
    started = asyncio.Event()

    async def never(**_: object) -> None:
        started.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", never)
    of_others = {one.pid for one in psutil.Process().children()}
    start = asyncio.create_task(ChildProcess.start(ProcessSettings()))
    await started.wait()
    (child,) = {one.pid for one in psutil.Process().children()} - of_others
    start.cancel()
    await asyncio.wait({start})
    assert child not in {one.pid for one in psutil.Process().children()}, "killed, and waited for"


def children() -> set[int]:
    """The child processes of this agent that wait for work or do it."""
    found: set[int] = set()
    for one in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # it ended while we looked
            if runs(one.pid) and "warrener_agent.executors.child" in one.cmdline():
                found.add(one.pid)
    return found


async def test_a_crashed_child_and_with_always_a_recycled_one_has_a_successor_before_anybody_needs_it(
    stage: Stage, agent: Agent
) -> None:
    async def successor() -> int:
        """Ready for the next attempt: it can be seen among the processes before that."""
        await until(lambda: any(one.get("action") == "agent.child_replaced" for one in records))
        (pid,) = {one["pid"] for one in records if one.get("action") == "agent.child_replaced"}
        await until(lambda: children() == {pid})
        records.clear()
        return int(pid)

    with capture_logs() as records:
        await stage.enter(agent)
        await stage.fail("dies", {"how": "7"})
        replaced = await successor()
        assert [(await stage.succeed("recycled")).result for _ in range(2)] == [replaced, replaced]
        await until(lambda: not children())  # it has had its two jobs, and no crash
        first = (await stage.succeed("lives_on")).result
        replaced = await successor()
        assert (await stage.succeed("lives_on")).result == replaced != first


async def test_no_leaves_it_to_the_next_attempt(stage: Stage, agent: Agent) -> None:
    await stage.enter(agent)
    await stage.fail("dies_alone")
    assert not children()


def test_an_impossible_restart_is_refused_where_it_is_declared() -> None:
    agent = Agent()
    with pytest.raises(JobDefinitionError, match="always, on-failure, no, got 'often'"):
        agent.job("a", executor="process", restart="often")(children)  # type: ignore[arg-type] # wrong on purpose
    with pytest.raises(JobDefinitionError, match="no restart"):
        agent.command("b", Program(["true"]), restart="always")


def test_a_child_has_had_its_time_after_so_many_jobs_or_with_so_much_memory() -> None:
    recycle = Recycle(jobs=3, memory="10MiB")
    assert not recycle.is_due(2, 10 * MIB - 1)
    assert recycle.is_due(3, 0)
    assert recycle.is_due(0, 10 * MIB)
    with pytest.raises(ValueError, match="1 job"):
        Recycle(jobs=0)


async def test_a_type_that_dies_too_often_is_held_and_then_tried_again() -> None:
    clock = VirtualClock()
    restarts = Restarts(clock, RestartLimit(deaths=2, within=10, hold=30))
    for _ in range(9):
        restarts.record_crash("now and then")
        await clock.advance(6)
        assert not restarts.is_suspended("now and then"), "deaths that are far apart hold nothing"
    for _ in range(2):
        restarts.record_crash("bad")
        await clock.advance(1)
    restarts.record_crash("other")
    assert not restarts.is_suspended("bad")
    await restarts.check()
    restarts.record_crash("bad")
    assert restarts.is_suspended("bad")
    assert not restarts.is_suspended("other")
    with pytest.raises(NotReady, match="bad"):
        await restarts.check()
    await clock.advance(30)
    assert not restarts.is_suspended("bad")
    await restarts.check()
