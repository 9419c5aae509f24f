"""Log lines of attempts: from every executor to the broker, after the reports, and never too many."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import structlog
from services.agent.tests import log_handlers
from services.agent.tests.stage import Stage

from warrener_agent import Agent
from warrener_contracts.events import AttemptFailed, AttemptLogged, AttemptSucceeded, LogEntry
from warrener_contracts.topology import LOGS_QUEUE
from warrener_runtime import log_output
from warrener_runtime.bus import OutgoingMessage, PublishResult
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.telemetry import TraceContext
from warrener_runtime.virtual_clock import VirtualClock

_log = logging.getLogger("shop.jobs")


@pytest.fixture(autouse=True)
def configured() -> None:
    log_output.configure("warrener-agent", level="info", scope_level="info")


@pytest.fixture
async def listening(stage: Stage) -> Stage:
    await stage.receive_from(LOGS_QUEUE.name)
    return stage


def entries(stage: Stage, job_id: UUID) -> list[LogEntry]:
    """Each line once, by number."""
    found = {entry.number: entry for event in stage.of(AttemptLogged, job_id) for entry in event.data.lines}
    return [entry for _, entry in sorted(found.items())]


async def final(stage: Stage, job_id: UUID) -> list[LogEntry]:
    """All lines, once the last ones are there."""
    await stage.until(
        lambda: any(event.data.final for event in stage.of(AttemptLogged, job_id)), "the last lines"
    )
    return entries(stage, job_id)


@pytest.mark.parametrize("where", ["coroutine", "thread"])
async def test_lines_of_logging_and_structlog_arrive_from_the_agents_own_process(
    listening: Stage, where: str
) -> None:
    await listening.enter(log_handlers.agent, agent_log_interval=0.1)
    job = await listening.dispatch(f"logs.{where}")
    found = await final(listening, job)
    assert [(entry.number, entry.level, entry.text) for entry in found] == [
        (1, "info", "842 rows to load"),
        (2, "warning", "a row was left out row=512"),
    ]
    assert found[0].logger == "shop.jobs"
    (event, *_) = listening.of(AttemptLogged, job)
    assert (event.data.job_type, event.data.attempt) == (f"logs.{where}", 1)


async def test_lines_of_a_child_process_arrive_with_their_levels_and_its_prints_between_them(
    listening: Stage,
) -> None:
    await listening.enter(log_handlers.agent, agent_log_interval=0.1)
    job = await listening.dispatch("logs.process")
    found = await final(listening, job)
    assert [(entry.level, entry.logger, entry.text) for entry in found][:3] == [
        (None, "output", "printed"),
        ("info", "shop.jobs", "842 rows to load"),
        ("warning", "", "a row was left out row=512"),
    ]
    assert found[3].text == "\ufffd\ufffd\x1b[31mred", "it was neither UTF-8 nor storable"


async def test_the_last_lines_of_a_process_that_dies_arrive(listening: Stage) -> None:
    await listening.enter(log_handlers.agent)
    job = await listening.dispatch("logs.process", {"end": "die"})
    assert [entry.text for entry in await final(listening, job)][-2:] == [
        "a row was left out row=512",
        "\ufffd\ufffd\x1b[31mred",
    ]


@pytest.mark.parametrize("code", [0, 3])
async def test_both_outputs_of_a_program_arrive(listening: Stage, code: int) -> None:
    await listening.enter(log_handlers.agent, agent_log_interval=0.1)
    job = await listening.dispatch("logs.command", {"code": code})
    found = await final(listening, job)
    assert sorted((entry.level, entry.logger, entry.text) for entry in found) == [
        (None, "stderr", "err"),
        (None, "stdout", "out"),
    ]


async def test_a_failed_attempt_publishes_its_last_lines_without_waiting_for_the_interval(
    listening: Stage,
) -> None:
    await listening.enter(log_handlers.agent, agent_log_interval=60.0)
    job = await listening.dispatch("logs.thread", {"end": "fail"})
    await listening.wait_for_event(AttemptFailed, job)
    assert len(await final(listening, job)) == 2


async def test_an_attempt_that_logs_nothing_sends_nothing(listening: Stage) -> None:
    agent = Agent()

    @agent.job("quiet")
    async def quiet() -> None: ...

    @agent.job("loud")
    async def loud() -> None:
        _log.info("here")

    await listening.enter(agent, agent_log_interval=0.1)
    silent = await listening.dispatch("quiet")
    await listening.wait_for_event(AttemptSucceeded, silent)
    job = await listening.dispatch("loud")
    await final(listening, job)
    assert not listening.of(AttemptLogged, silent)


async def test_nothing_is_published_if_no_lines_are_to_be_stored(listening: Stage) -> None:
    await listening.enter(log_handlers.agent, agent_log_size_limit=0)
    job = await listening.dispatch("logs.thread")
    await listening.wait_for_event(AttemptSucceeded, job)
    assert not listening.of(AttemptLogged)


class Refusing(MemoryBus):
    """A connection on which the broker confirms no log line until the test lets it."""

    def __init__(self, broker: MemoryBroker) -> None:
        super().__init__(broker)
        self.refuses = True
        self.refused = asyncio.Event()

    async def publish(
        self, messages: Sequence[OutgoingMessage], *, timeout: float = 10.0
    ) -> list[PublishResult]:
        if self.refuses and any(message.exchange == "warrener.logs" for message in messages):
            self.refused.set()
            return [PublishResult.UNKNOWN] * len(messages)
        return await super().publish(messages, timeout=timeout)


async def test_reports_do_not_wait_for_lines_that_the_broker_does_not_take(listening: Stage) -> None:
    bus = Refusing(listening.broker)
    await listening.enter(log_handlers.agent, bus=bus, agent_log_interval=0.1)
    job = await listening.dispatch("logs.thread", {"end": "fail"})
    await bus.refused.wait()
    await listening.wait_for_event(AttemptFailed, job)
    bus.refuses = False
    assert len(await final(listening, job)) == 2, "they are published again"


async def test_an_agent_that_drains_publishes_what_it_has(listening: Stage) -> None:
    one = await listening.enter(log_handlers.agent, agent_log_interval=60.0)
    job = await listening.dispatch("logs.thread")
    await listening.wait_for_event(AttemptSucceeded, job)
    await one.drain()
    assert len(await final(listening, job)) == 2


@pytest.mark.parametrize("where", ["coroutine", "thread", "process"])
async def test_lines_name_the_span_of_their_attempt(listening: Stage, where: str) -> None:
    await listening.enter(log_handlers.agent, agent_log_interval=0.1)
    context = TraceContext("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    job = await listening.dispatch_traced(f"logs.{where}", context)
    logged = [entry for entry in await final(listening, job) if entry.level]
    assert {entry.trace_id for entry in logged} == {"0af7651916cd43dd8448eb211c80319c"}
    assert all(entry.span_id for entry in logged)


async def test_each_attempt_has_a_line_at_its_start_and_one_at_its_end(stage: Stage) -> None:
    with structlog.testing.capture_logs() as records:
        await stage.enter(log_handlers.agent)
        job = await stage.dispatch("logs.thread", {"end": "fail"})
        await stage.wait_for_event(AttemptFailed, job)
    found = [record for record in records if str(record.get("action", "")).startswith("attempt.")]
    assert [record["action"] for record in found] == ["attempt.started", "attempt.ended"]
    assert {record["job_id"] for record in found} == {str(job)}
    assert found[1]["outcome"] == "failed"
    assert found[1]["error"] == "ValueError: no good"
    assert found[1]["seconds"] >= 0


def summaries(records: Sequence[Any], action: str) -> list[Any]:
    return [record for record in records if record.get("action") == action]


async def test_many_attempts_have_some_lines_and_a_count(stage: Stage) -> None:
    agent = Agent()

    @agent.job("short")
    async def short() -> None: ...

    with structlog.testing.capture_logs() as records:
        one = await stage.enter(agent, agent_slots=100, clock=VirtualClock(datetime.now(UTC)))
        for _ in range(200):
            await stage.dispatch("short")
        await stage.wait_for_event(AttemptSucceeded, times=200)
        await one.drain()
    started = len(summaries(records, "attempt.started"))
    counted = sum(record["started"] for record in summaries(records, "agent.attempts_counted"))
    assert (started, counted) == (20, 180), "20 a second"
