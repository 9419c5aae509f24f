"""The parts of `up`: children that are kept alive, what they say, and how they end."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import psutil
import pytest

from warrener.up.child import Child, Unusable
from warrener.up.crew import Member, crew, environment_of
from warrener.up.folder import Endpoints
from warrener.up.greeting import example, greeting
from warrener.up.log_line import LogLine, read_line
from warrener.up.stopping import Stopping
from warrener_contracts.policy import Guarantee, JobPolicy
from warrener_store.rows import JobTypeRow
from warrener_store.testing import NOON

ENDPOINTS = Endpoints("amqp://b/", "sqlite:///s.db", "sqlite:///l.db")


class Ear:
    """Hears everything, and lets a test wait for it."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []
        self._news = asyncio.Event()

    def event(self, event: str, told: str, *, of: str = "up", **facts: Any) -> None:
        assert told
        assert of
        self.facts = facts
        self._add(event, of)

    def line(self, of: str, line: LogLine) -> None:
        assert of
        self._add("line", line.told)

    def ready(self, told: list[tuple[str, str]], **facts: Any) -> None:
        raise AssertionError((told, facts))

    def _add(self, what: str, told: str) -> None:
        self.heard.append((what, told))
        self._news.set()

    async def until(self, what: str, times: int = 1) -> None:
        """Until this was heard so often."""
        async with asyncio.timeout(60):
            while sum(what in pair for pair in self.heard) < times:
                self._news.clear()
                await self._news.wait()


def member(program: str) -> Member:
    return Member("agent", "agent", (sys.executable, "-c", program))


def plain(of: Member, port: int) -> Mapping[str, str]:
    return environment_of(of, os.environ, ENDPOINTS, port, "info")


@asynccontextmanager
async def living(child: Child) -> AsyncGenerator[asyncio.Task[None]]:
    life = asyncio.create_task(child.live())
    try:
        yield life
    finally:
        child.leave(signal.SIGKILL)
        await asyncio.wait({life}, timeout=30)


WAITS = "print('here', flush=True); import signal; signal.pause()"


async def test_what_dies_is_started_again() -> None:
    ear = Ear()
    child = Child(member(WAITS), plain, ear)
    async with living(child) as life:
        await ear.until("here")
        first = child.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await ear.until("here", times=2)
        assert child.pid not in {first, None}
        assert ("died", "agent") in ear.heard
        child.leave()
        async with asyncio.timeout(30):
            await life
    assert child.pid is None


async def test_a_member_that_cannot_work_as_it_was_told_ends_up() -> None:
    ear = Ear()
    child = Child(member("print('no module shop.jobs'); raise SystemExit(2)"), plain, ear)
    with pytest.raises(Unusable):
        async with asyncio.timeout(30):
            await child.live()
    assert ("line", "no module shop.jobs") in ear.heard


def test_a_child_does_not_outlive_whoever_started_it() -> None:
    starter = (
        "import os, subprocess, sys; "
        "child = subprocess.Popen([sys.executable, '-m', 'warrener.up.leash', str(os.getpid()), "
        "sys.executable, '-c', 'import signal; print(\"here\", flush=True); signal.pause()']); "
        "print(child.pid, flush=True); child.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        words = {parent.stdout.readline().strip(), parent.stdout.readline().strip()}
        child = psutil.Process(int((words - {"here"}).pop()))
        parent.kill()
        child.wait(timeout=30)
    assert not child.is_running()


async def test_the_first_signal_drains_the_second_hurries_and_the_third_kills() -> None:
    stubborn = (
        "import signal\n"
        "asked = {signal.SIGTERM, signal.SIGINT}\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, asked)\n"
        "print('here', flush=True)\n"
        "while signal.sigwait(asked): print('no', flush=True)\n"
    )
    ear = Ear()
    stopping, child = Stopping(ear), Child(member(stubborn), plain, ear)
    async with living(child) as life:
        await ear.until("here")
        stopping.ask()
        end = asyncio.create_task(stopping.in_order({life: child}))
        await ear.until("no")
        stopping.ask()
        await ear.until("no", times=2)
        assert stopping.hurried
        stopping.ask()
        async with asyncio.timeout(30):
            await end
    assert [what for what, _ in ear.heard if what in {"draining", "hurrying", "killed", "stopped"}] == [
        "draining",
        "hurrying",
        "killed",
        "stopped",
    ]


def test_a_crew_has_one_scheduler_one_supervisor_and_as_many_agents_as_asked_for() -> None:
    assert [each.name for each in crew(["shop"], 2, None)] == [
        "scheduler",
        "supervisor",
        "agent-1",
        "agent-2",
    ]
    assert [each.name for each in crew(["shop"], 1, 5)] == ["scheduler", "supervisor", "agent"]
    assert crew(["shop"], 1, 5)[-1].command[1:] == ("-m", "warrener_agent", "shop", "--slots", "5")
    assert [each.name for each in crew([], 3, None)] == ["scheduler", "supervisor"]


def test_a_member_is_told_where_things_are_and_no_more() -> None:
    scheduler, _, agent = crew(["shop"], 1, None)
    told = environment_of(scheduler, {"HOME": "/x"}, ENDPOINTS, 8080, "info")
    assert told["WARRENER_STORE_URL"] == "sqlite:///s.db"
    assert "WARRENER_LEDGER_URL" not in told
    assert "WARRENER_STORE_URL" not in environment_of(agent, {}, ENDPOINTS, 8080, "info")


def test_log_records_are_taken_apart_and_other_lines_stand_as_they_are() -> None:
    record = (
        '{"message": "A job is dead.", "level": "warning", "service": "s", "job_id": 7, "exception": "a\\nb"}'
    )
    assert read_line(record) == LogLine("A job is dead.", "warning", {"job_id": 7}, ("a", "b"))
    for text in ("greeting World", '{"a": 1}', "{not json"):
        assert read_line(text) == LogLine(text)


def test_the_greeting_shows_a_request_that_can_be_tried() -> None:
    row = JobTypeRow(
        name="hello.greet",
        queue="default",
        arguments_schema={"required": ["name"]},
        result_schema=None,
        guarantee=Guarantee.IDEMPOTENT,
        policy=JobPolicy(),
        description="",
        announced_by="a1",
        announced_at=NOON,
    )
    assert example(row) == "warrener request hello.greet name=… --wait"
    told = dict(greeting(ENDPOINTS, "RabbitMQ 4.0", 2, [row]))
    assert (told["agents"], told["jobs"], told["store"]) == ("2", "hello.greet", "s.db")
    assert "warrener agent MODULE" in dict(greeting(ENDPOINTS, "RabbitMQ 4.0", 0, []))["agents"]
