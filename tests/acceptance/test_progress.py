"""Point 6 of supervision, on real processes and a real broker: progress, as often as an eye can follow."""

import asyncio
from datetime import datetime
from pathlib import Path
from uuid import UUID

import aio_pika
import pytest
from tests.acceptance.gate import make_gate, open_gate
from tests.acceptance.store_queries import rows_of
from tests.acceptance.warren import Warren, until
from typer.testing import CliRunner

from warrener.command.app import app
from warrener_client import SyncClient
from warrener_contracts import topology
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import AttemptProgressed

MODULE = "tests.acceptance.steered_handlers"


@pytest.fixture(scope="module")
def running(shared_warren: Warren) -> Warren:
    """A warren that works."""
    shared_warren.start_all(MODULE)
    return shared_warren


@pytest.mark.parametrize("where", ["coroutine", "thread", "process"])
def test_6_progress_is_published_as_an_eye_can_follow_and_the_last_value_arrives(
    running: Warren, where: str
) -> None:
    queue_name, gate = f"ear-{where}", Path(running.folder, f"gate-{where}")
    make_gate(gate)
    asyncio.run(listen(running.broker_url, queue_name))
    with SyncClient(running.broker_url) as client:
        job = client.request(f"talks.{where}", {"gate": str(gate)})

        def last_word() -> bool:
            row = rows_of(running, [job.job_id]).get(job.job_id)
            return row is not None and (row.progress, row.progress_note) == (0.8, "the last word")

        until(last_word, "the last word of 20,000 to be in the store")
        shown = CliRunner().invoke(app, ["job", str(job.job_id), "--store", running.store_url])
        assert "80% the last word" in shown.stdout
        open_gate(gate)
        job.result(timeout=60)

    times = asyncio.run(receive_progress(running.broker_url, queue_name, job.job_id))
    first, last = times[0], times[-1]
    seconds = (last - first).total_seconds()
    assert len(times) <= seconds / 0.9 + 2, f"{len(times)} messages in {seconds} s"


async def listen(url: str, name: str) -> None:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(name, durable=True)
        await queue.bind(topology.STATUS, "attempt.progressed.#")


async def receive_progress(url: str, name: str, job_id: UUID) -> list[datetime]:
    """When each word about this job was sent."""
    times: list[datetime] = []
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        queue = await channel.get_queue(name)
        while (message := await queue.get(no_ack=True, fail=False)) is not None:
            for found in decode(message.body, message.content_type):
                if isinstance(found, DecodedEvent) and isinstance(found.event, AttemptProgressed):
                    assert found.event.data.job_id == job_id
                    assert found.event.time is not None
                    times.append(found.event.time)
    return times
