"""Log lines on their way into the store."""

from collections.abc import AsyncIterator, Sequence
from uuid import UUID, uuid4

import pytest
from services.supervisor.tests.stage import JOB, NOW, SupervisorHarness, opened, running_row

from warrener_contracts import topology
from warrener_contracts.events import AttemptLogged, AttemptLoggedData, LogEntry
from warrener_contracts.messages import build_message
from warrener_store import StoreRefused
from warrener_store.logs.rows import LogChunk, LogLimit
from warrener_store.memory import MemoryStore
from warrener_supervisor.settings import SupervisorSettings


def logged(first: int, *texts: str, job_id: UUID = JOB, final: bool = False) -> AttemptLogged:
    lines = tuple(LogEntry(number=number, at=NOW, text=text) for number, text in enumerate(texts, first))
    data = AttemptLoggedData(
        job_id=job_id,
        attempt=1,
        job_type="flights.load",
        agent_id="a1",
        started_at=NOW,
        lines=lines,
        final=final,
    )
    return AttemptLogged(id=str(uuid4()), source="test", time=NOW, data=data)


class FussyStore(MemoryStore):
    """A store that refuses a batch with a certain line in it."""

    async def append_logs(self, chunks: Sequence[LogChunk], limit: LogLimit) -> None:
        if any(line.text == "refused" for chunk in chunks for line in chunk.lines):
            raise StoreRefused("a constraint")
        await super().append_logs(chunks, limit)


@pytest.fixture
async def harness() -> AsyncIterator[SupervisorHarness]:
    settings = SupervisorSettings(supervisor_log_lines_limit=2)
    async with opened(running_row(), store=FussyStore(), settings=settings) as one:
        yield one


async def texts(harness: SupervisorHarness) -> list[str]:
    return [line.text for chunk in await harness.store.logs_of(JOB) for line in chunk.lines]


async def test_lines_are_stored_and_the_last_ones_stay(harness: SupervisorHarness) -> None:
    await harness.publish(logged(1, "a"), logged(2, "b", final=True), then=2.0)
    (first, second) = await harness.store.logs_of(JOB)
    assert (first.first_line, first.line_count, first.size, first.final) == (1, 1, 1, False)
    assert second.final
    await harness.publish(logged(3, "c"), then=2.0)
    assert await texts(harness) == ["b", "c"]
    assert harness.broker.ready(topology.LOGS_QUEUE.name) == 0


async def test_lines_that_the_store_refuses_are_dropped_alone(harness: SupervisorHarness) -> None:
    await harness.publish(logged(1, "a"), logged(2, "refused"), logged(3, "c", job_id=uuid4()), then=2.0)
    assert await texts(harness) == ["a"]
    assert harness.broker.ready(topology.LOGS_QUEUE.name) == 0


async def test_what_is_no_log_line_or_came_by_the_key_of_another_type_is_parked(
    harness: SupervisorHarness,
) -> None:
    bad = build_message(logged(1, "a"))._replace(body=b"{")
    misrouted = build_message(logged(1, "a"))._replace(routing_key="attempt.logged.bank.pay")
    await harness.publish(bad, misrouted, logged(2, "b"), then=5.0)
    assert await texts(harness) == ["b"]
    parked = {(one.queue, one.reason) for one in await harness.store.parked()}
    assert parked == {(topology.LOGS_QUEUE.name, why) for why in ("not_json", "routing_key_mismatch")}
