"""The agent as a process: its start, its errors, and its service and drain on a real broker."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from warrener_agent.__main__ import AgentNotFound, load_agents
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import (
    AgentAnnounced,
    AttemptDispatched,
    AttemptDispatchedData,
    AttemptReleased,
    AttemptStarted,
    AttemptSucceeded,
    Event,
)
from warrener_contracts.messages import build_message
from warrener_contracts.topology import REQUESTS_QUEUE, STATUS_QUEUE, TOPOLOGY
from warrener_runtime.bus import Bus, PublishResult, open_bus

WAIT = 60
MODULE = """
import asyncio, os
from warrener_agent import Agent, JobContext

agent = Agent()
second = Agent()

@agent.job("greet")
async def greet(name: str) -> str:
    return f"Hello, {name}!"

@agent.job("where", executor="process")
def where(job: JobContext) -> int:
    job.transaction_sync().execute("CREATE TABLE effects (note TEXT)")
    return os.getppid()

@second.job("wait")
async def wait() -> None:
    await asyncio.Event().wait()
"""


@asynccontextmanager
async def agent(folder: Path, *words: str, **variables: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """`python -m warrener_agent WORDS` in `folder`."""
    folder.joinpath("shop_jobs.py").write_text(MODULE)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("WARRENER_")}
    overrides = {"WARRENER_LEDGER_URL": "sqlite:///ledger.db", **variables}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "warrener_agent",
        *words,
        cwd=folder,
        env={**inherited, **overrides},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def startup_error(folder: Path, *words: str, **variables: str) -> str:
    """What it says when it does not start."""
    async with agent(folder, *words, **variables) as process, asyncio.timeout(WAIT):
        _, output = await process.communicate()
    assert process.returncode == 2, output.decode()
    return output.decode()


async def test_the_error_names_what_is_missing(tmp_path: Path) -> None:
    assert "expected a module nowhere, found none" in await startup_error(tmp_path, "nowhere")
    assert "got none" in await startup_error(tmp_path)


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("import not_installed_at_all", "got ModuleNotFoundError: No module named 'not_installed_at_all' ("),
        ("def broken(:", "got SyntaxError: "),
        ("1 / 0", "got ZeroDivisionError: division by zero ("),
    ],
)
async def test_a_module_that_cannot_be_imported_ends_the_agent_with_one_sentence(
    tmp_path: Path, code: str, output: str
) -> None:
    (tmp_path / "broken_jobs.py").write_text(f"# handlers\n{code}\n")
    error = await startup_error(tmp_path, "broken_jobs")
    assert f"expected broken_jobs to be imported, {output}" in error
    assert "broken_jobs.py, line 2)" in error
    assert "Traceback" not in error


async def test_the_error_names_the_wrong_setting(tmp_path: Path) -> None:
    output = await startup_error(tmp_path, "shop_jobs", WARRENER_AGENT_SLOTS="many")
    assert "WARRENER_AGENT_SLOTS" in output
    output = await startup_error(tmp_path, "shop_jobs", WARRENER_LEDGER_URL="mysql://x")
    assert "WARRENER_LEDGER_URL" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("target", "output"),
    [
        ("no_such_module_here", "found none; neither"),
        ("shop/jobs.py", "named with dots: shop.jobs"),
        ("json", "expected an Agent in module json, found none"),
        ("warrener_agent.testing:run", "expected an Agent as warrener_agent.testing:run"),
    ],
)
def test_a_target_that_is_not_there_is_explained(target: str, output: str) -> None:
    with pytest.raises(AgentNotFound, match=output):
        load_agents([target])


def test_an_error_inside_a_module_is_not_mistaken_for_a_missing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.joinpath("broken_jobs.py").write_text("import not_installed_at_all")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ModuleNotFoundError, match="not_installed_at_all"):
        load_agents(["broken_jobs"])


@asynccontextmanager
async def prepared_broker(url: str) -> AsyncGenerator[Bus]:
    """The broker with its topology, as scheduler and supervisor have it."""
    bus = open_bus(url, name="test")
    await bus.start()
    await bus.declare(TOPOLOGY)
    try:
        yield bus
    finally:
        await bus.close()


async def wait_for_event(bus: Bus, queue: str, kind: type[Event[Any]]) -> Event[Any]:
    """The first event of a kind in a queue."""
    subscription = await bus.subscribe(queue, prefetch=100)
    async with asyncio.timeout(WAIT):
        async for batch in subscription:
            await subscription.ack(batch)
            for delivery in batch:
                for element in decode(delivery.body, delivery.content_type):
                    if isinstance(element, DecodedEvent) and isinstance(element.event, kind):
                        await subscription.stop()
                        return element.event
    raise AssertionError(f"expected {kind.__name__} in {queue}")


async def until_logged(process: asyncio.subprocess.Process, action: str) -> None:
    """Wait until the agent has logged this."""
    assert process.stderr is not None
    async with asyncio.timeout(WAIT):
        while action.encode() not in (line := await process.stderr.readline()):
            assert line, f"expected {action}"


async def dispatch(bus: Bus, job_type: str, **arguments: str) -> None:
    data = AttemptDispatchedData(
        job_id=uuid4(),
        attempt=1,
        job_type=job_type,
        queue="default",
        arguments=arguments,
        timeout=timedelta(minutes=1),
        max_attempts=3,
        requested_at=datetime.now(UTC),
    )
    event = AttemptDispatched(id=str(uuid4()), source="test", data=data)
    assert await bus.publish([build_message(event)]) == [PublishResult.CONFIRMED]


async def test_a_real_agent_serves_what_it_announces_and_drains_on_sigterm(
    tmp_path: Path, vhost_url: str
) -> None:
    async with (
        prepared_broker(vhost_url) as bus,
        agent(tmp_path, "shop_jobs", "--slots", "3", WARRENER_BROKER_URL=vhost_url) as process,
    ):
        announced = await wait_for_event(bus, REQUESTS_QUEUE.name, AgentAnnounced)
        assert {kind.name for kind in announced.data.job_types} == {"greet", "wait", "where"}
        await dispatch(bus, "greet", name="Ada")
        assert (await wait_for_event(bus, STATUS_QUEUE.name, AttemptSucceeded)).data.result == "Hello, Ada!"
        await dispatch(bus, "where")
        assert (await wait_for_event(bus, STATUS_QUEUE.name, AttemptSucceeded)).data.result == process.pid
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(WAIT):
            _, output = await process.communicate()
        assert process.returncode == 0, output.decode()[-3000:]
        assert "Traceback" not in output.decode()


async def test_a_draining_agent_releases_what_does_not_end(tmp_path: Path, vhost_url: str) -> None:
    async with (
        prepared_broker(vhost_url) as bus,
        agent(tmp_path, "shop_jobs:second", WARRENER_BROKER_URL=vhost_url) as process,
    ):
        await wait_for_event(bus, REQUESTS_QUEUE.name, AgentAnnounced)
        await dispatch(bus, "wait")
        await wait_for_event(bus, STATUS_QUEUE.name, AttemptStarted)
        process.send_signal(signal.SIGTERM)
        await until_logged(process, "service.draining")
        # It ends the wait for what runs, and leaves the release more time than a short grace does at its end.
        process.send_signal(signal.SIGTERM)
        await wait_for_event(bus, STATUS_QUEUE.name, AttemptReleased)
        async with asyncio.timeout(WAIT):
            _, output = await process.communicate()
        assert process.returncode == 0, output.decode()[-3000:]
