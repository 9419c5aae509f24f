"""An agent is killed by SIGKILL, for real and on a real broker, at the two moments that hurt most (G4).

The fault stands here and not in the product: the agent's process is assembled from the product's parts on a
bus that kills its process right before or right after the outcome is published.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

import pytest
from tests.acceptance.store_queries import effects_in

from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import (
    AttemptDispatched,
    AttemptDispatchedData,
    AttemptFailed,
    AttemptSucceeded,
    Event,
    JobRequested,
)
from warrener_contracts.messages import build_message
from warrener_contracts.topology import REQUESTS_QUEUE, STATUS_QUEUE, TOPOLOGY, dispatch_queue
from warrener_runtime.bus import Bus, PublishResult, open_bus

E = TypeVar("E", bound=Event[Any])
AGENT = '''
import asyncio, os, signal, sys
from collections.abc import Sequence
from warrener_agent import Agent, JobContext
from warrener_agent.ledger import connected_ledger
from warrener_agent.settings import AgentSettings
from warrener_agent.wiring import assemble
from warrener_runtime.bus import open_bus
from warrener_runtime.clock import SystemClock, SystemEntropy
from warrener_runtime.telemetry import Telemetry

agent = Agent()

@agent.job("note.write", guarantee="transactional")
async def write(job: JobContext, note: str) -> str:
    transaction = await job.transaction()
    await transaction.execute("CREATE TABLE IF NOT EXISTS effects (note TEXT)")
    await transaction.execute("INSERT INTO effects VALUES (:note)", {"note": note})
    job.request("note.next", {"after": note}, key="next")
    return f"{note} {os.getpid()}"

class DeadlyBus:
    """Kills its process around the publishing of an outcome."""

    def __init__(self, bus, when):
        self._bus, self._when = bus, when

    def __getattr__(self, name):
        return getattr(self._bus, name)

    async def publish(self, messages, *, timeout=10.0):
        fatal = any(message.type.startswith("attempt.succeeded") for message in messages)
        if fatal and self._when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        results = await self._bus.publish(messages, timeout=timeout)
        if fatal and self._when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return results

async def main(broker, ledger_url, when):
    bus = DeadlyBus(open_bus(broker, name="agent"), when)
    await bus.start()
    clock, entropy, settings = SystemClock(), SystemEntropy(), AgentSettings(agent_slots=2)
    async with connected_ledger(ledger_url) as ledger:
        await assemble(agent, bus, ledger, clock, entropy, Telemetry.disabled(), settings).start()
        await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
'''


@asynccontextmanager
async def agent_process(
    folder: Path, broker: str, ledger: str, when: str
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A real agent, in a process of its own."""
    script = folder / "killed_agent.py"
    script.write_text(AGENT)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(script), broker, ledger, when, cwd=folder
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def dispatch(bus: Bus, job_id: UUID) -> None:
    """What the scheduler sends for attempt 1."""
    data = AttemptDispatchedData(
        job_id=job_id,
        attempt=1,
        job_type="note.write",
        queue="default",
        arguments={"note": "once"},
        timeout=timedelta(minutes=1),
        max_attempts=3,
        requested_at=datetime.now(UTC),
    )
    event = AttemptDispatched(id=str(uuid4()), source="test", data=data)
    assert await bus.publish([build_message(event)]) == [PublishResult.CONFIRMED]


@pytest.mark.parametrize("ledger", ["sqlite", "postgres"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_g4_an_agent_killed_around_its_report_repeats_no_effect_and_reports_one_outcome(
    tmp_path: Path, vhost_url: str, request: pytest.FixtureRequest, ledger: str, when: str
) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db" if ledger == "sqlite" else request.getfixturevalue("postgres_url")
    bus = open_bus(vhost_url, name="test")
    await bus.start()
    try:
        await bus.declare(TOPOLOGY.with_queues([dispatch_queue("default")]))
        job_id = uuid4()
        await dispatch(bus, job_id)
        async with agent_process(tmp_path, vhost_url, url, when) as first, asyncio.timeout(60):
            assert await first.wait() == -signal.SIGKILL
        assert await effects_in(url) == ["once"], "killed after the effect was committed"
        async with agent_process(tmp_path, vhost_url, url, "never"), asyncio.timeout(60):
            count = 1 if when == "before" else 2
            succeeded = await received(bus, STATUS_QUEUE.name, AttemptSucceeded, count)
            requested = await received(bus, REQUESTS_QUEUE.name, JobRequested, count)
        assert await effects_in(url) == ["once"]
        assert {one.data.job_id for one in succeeded} == {job_id}
        assert len({one.data.result for one in succeeded}) == 1, (
            "one result, by the agent that has done the work"
        )
        assert len({one.id for one in requested}) == 1, "one child job, however often it is asked for"
    finally:
        await bus.close()


async def received(bus: Bus, queue: str, kind: type[E], count: int) -> list[E]:
    """Wait for so many events of this kind; a failed attempt would be a surprise."""
    found: list[E] = []
    subscription = await bus.subscribe(queue, prefetch=100)
    async for batch in subscription:
        for delivery in batch:
            for element in decode(delivery.body, delivery.content_type):
                assert isinstance(element, DecodedEvent)
                assert not isinstance(element.event, AttemptFailed), element.event
                if isinstance(element.event, kind):
                    found.append(element.event)
        await subscription.ack(batch)
        if len(found) >= count:
            await subscription.stop()
    return found
