"""A job that runs longer than the broker lets a delivery wait for its acknowledgement."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage
from tests.acceptance.gate import make_gate, open_gate
from tests.acceptance.looking import look
from tests.acceptance.warren import Warren, until
from tests.servers.kinds import RabbitMQServer

from warrener_client import SyncClient
from warrener_store import migrate

HANDLERS = """
import os
from pathlib import Path
from tests.acceptance.gate import pass_gate
from warrener_agent import Agent, JobContext

agent = Agent()
here = Path(__file__).parent

@agent.job("long.haul")
def haul(job: JobContext) -> int:
    with (here / "runs").open("a") as file:
        file.write(f"{job.attempt}\\n")
    pass_gate(here / "gate")
    return job.attempt
"""
UNACKNOWLEDGED = """
lists:sum([U || [{name, {resource, _, queue, <<"warrener.queue.default">>}}, {messages_unacknowledged, U}]
    <- rabbit_amqqueue:info_all(<<"/">>, [name, messages_unacknowledged])])
"""


@pytest.fixture
def impatient(own_rabbitmq: RabbitMQServer) -> RabbitMQServer:
    """A broker that closes a channel after two seconds without an acknowledgement, instead of half an
    hour."""
    own_rabbitmq.evaluate(
        "application:set_env(rabbit, consumer_timeout, 2000),"
        "application:set_env(rabbit, channel_tick_interval, 500)"
    )
    return own_rabbitmq


@pytest.fixture
def warren(tmp_path: Path, impatient: RabbitMQServer) -> Iterator[Warren]:
    """A warren on that broker."""
    store = f"sqlite:///{tmp_path}/state.db"
    asyncio.run(migrate(store))
    one = Warren(tmp_path, impatient.url, store, f"sqlite:///{tmp_path}/ledger.db")
    one.environment = {"WARRENER_AGENT_EARLY_ACK": "0.5", "WARRENER_AGENT_HEARTBEAT": "1"}
    yield one
    one.end()


def test_a_job_outlives_the_brokers_patience_and_runs_once(warren: Warren, impatient: RabbitMQServer) -> None:
    (warren.folder / "hauling.py").write_text(HANDLERS)
    make_gate(warren.folder / "gate")
    warren.start_all("hauling")
    with SyncClient(warren.broker_url) as client:
        job = client.request("long.haul", {})
        until(lambda: Path(warren.folder, "runs").exists(), "the job to run")
        until(lambda: impatient.evaluate(UNACKNOWLEDGED).strip() == "0", "its delivery to be acknowledged")
        for _ in range(2):  # twice: the broker looks at each channel at a time of its own
            asyncio.run(patience_ends(warren.broker_url))
        open_gate(warren.folder / "gate")
        assert job.result(timeout=60) == 1

    assert Path(warren.folder, "runs").read_text() == "1\n", "it ran once"
    row, parked = look(warren, job.job_id)
    assert (row.attempt, row.losses, row.failures) == (1, 0, 0)
    assert not parked


async def patience_ends(url: str) -> None:
    """Return when the broker has closed a channel because of a delivery that came after this call."""
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(aio_pika.Message(b""), queue.name)
        closed = asyncio.Event()

        def closed_by_broker(*_: object) -> None:
            closed.set()

        channel.close_callbacks.add(closed_by_broker)
        await queue.consume(_keep)
        async with asyncio.timeout(60):
            await closed.wait()


async def _keep(_message: AbstractIncomingMessage) -> None:
    """Never acknowledged."""
