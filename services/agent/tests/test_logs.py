"""Log lines of attempts: within limits, from every executor to the broker, after the reports."""

import asyncio
import json
import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import structlog
from services.agent.tests import log_handlers
from services.agent.tests.stage import Stage

from warrener_agent import Agent
from warrener_agent.log_buffer import LogBuffer, LogLimits, NumberedLine, SharedSize, group_by_size
from warrener_contracts.events import AttemptFailed, AttemptLogged, AttemptSucceeded, LogEntry
from warrener_contracts.topology import LOGS_QUEUE
from warrener_runtime import log_output
from warrener_runtime.bus import OutgoingMessage, PublishResult
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.log_scopes import LoggedLine
from warrener_runtime.virtual_clock import VirtualClock

# -- the buffer of one attempt --------------------------------------------------------------------------


NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


EARLIER = {"message": "made earlier", "level": "info", "timestamp": "2020-01-01T00:00:00Z"}


def line(text: str) -> LoggedLine:
    return LoggedLine(NOON, "info", "shop.jobs", text)


def buffer(
    *, size: int = 1000, lines: int = 10, line_size: int = 100, shared: SharedSize | None = None
) -> LogBuffer:
    return LogBuffer(LogLimits(size, lines, line_size), shared or SharedSize(1_000_000), lambda _: None)


def texts(one: LogBuffer, *, whole: bool = True) -> list[tuple[int, str]]:
    one.take_output(whole=whole)
    return [(found.number, found.line.text) for found in one.first_lines(1_000_000)]


@pytest.mark.parametrize(
    ("limits", "logged", "found"),
    [
        ({"lines": 3}, [str(n) for n in range(100_000)], [(n + 1, str(n)) for n in range(99_997, 100_000)]),
        ({"size": 100}, ["a" * 40, "b" * 40, "c" * 40], [(2, "b" * 40), (3, "c" * 40)]),
        ({"line_size": 10}, ["0123456789abc"], [(1, "0123456789… [3 more characters were cut off]")]),
        ({"line_size": 10}, ["short"], [(1, "short")]),
    ],
    ids=["by lines", "by bytes", "a long line", "a short one"],
)
def test_the_last_lines_stay_and_numbers_show_how_many_were_left_out(
    limits: dict[str, Any], logged: Iterable[str], found: list[tuple[int, str]]
) -> None:
    one = buffer(**limits)
    for text in logged:
        one.add(line(text))
    assert texts(one) == found


def test_all_buffers_together_are_limited_but_each_keeps_its_last_line() -> None:
    shared = SharedSize(100)
    one, other = buffer(shared=shared), buffer(shared=shared)
    for _ in range(5):
        one.add(line("x" * 30))
        other.add(line("y" * 30))
    assert len(texts(one)) + len(texts(other)) <= 4
    assert texts(one)
    assert texts(other)
    for each in (one, other):
        each.discard_through(5)
    assert shared.size == 0


def test_output_becomes_lines_as_their_ends_arrive_and_published_ones_stay_until_they_are_confirmed() -> None:
    announced: list[LogBuffer] = []
    one = LogBuffer(LogLimits(1000, 10, 100), SharedSize(1_000_000), announced.append)
    assert announced == []
    for piece in (b"a\nb", b"b\r\n", b"c"):
        one.add_output("stderr", piece)
    assert texts(one, whole=False) == [(1, "a"), (2, "bb")]
    assert texts(one) == [(1, "a"), (2, "bb"), (3, "c")]
    assert {found.line.level for found in one.first_lines(100)} == {None}
    assert announced == [one], "by its first line, once"
    assert [found.number for found in one.first_lines(3)] == [1, 2]
    assert [found.number for found in one.first_lines(0)] == [1], "at least one, or nothing would move on"
    one.discard_through(2)
    assert texts(one) == [(3, "c")]


def test_a_record_that_a_child_process_has_written_keeps_its_level_and_its_span() -> None:
    one = buffer()
    one.add_output(
        "output",
        b'{"message": "842 rows", "level": "warning", "timestamp": "2026-11-22T12:00:00Z", "part": "shop",'
        b' "job_id": "j", "trace_id": "t", "span_id": "s", "path": "a.csv"}\n{"message": 1}\n{broken\n',
    )
    one.take_output(whole=True)
    first, *others = [found.line for found in one.first_lines(10_000)]
    assert first == LoggedLine(NOON, "warning", "shop", "842 rows path=a.csv", "t", "s")
    assert [other.text for other in others] == ['{"message": 1}', "{broken"]


@pytest.mark.parametrize("piece", [b"x" * 999, b"x", b"0123456789\n" * 50], ids=["long", "byte", "lines"])
def test_output_without_end_costs_as_much_as_the_limit(piece: bytes) -> None:
    one = buffer(size=10_000, lines=50)
    for _ in range(20_000):
        one.add_output("output", piece)
    found = texts(one)
    assert sum(len(text) for _, text in found) <= 10_000 + 100
    assert found[-1][0] == max(1, piece.count(b"\n") * 20_000), "lines that were left out are counted"


@pytest.mark.parametrize(
    ("outputs", "found"),
    [
        ([("stdout", "first"), ("stderr", "second"), ("stdout", "third")], ["first", "second", "third"]),
        # Records stay between the lines of their process.
        ([("output", f"before\n{json.dumps(EARLIER)}\nafter")], ["before", "made earlier", "after"]),
        # Escaped for display, not here.
        ([("stderr", b"\xff\x00\x1b[31m\xed\xa0\x80")], ["\ufffd\0\x1b[31m\ufffd\ufffd\ufffd"]),
    ],
)
def test_output_becomes_text_in_the_order_of_its_arrival(
    outputs: list[tuple[str, str | bytes]], found: list[str]
) -> None:
    one = buffer()
    for stream, text in outputs:
        one.add_output(stream, (text if isinstance(text, bytes) else text.encode()) + b"\n")
        one.take_output(whole=False)
    assert [text for _, text in texts(one)] == found


def test_lines_are_grouped_by_size() -> None:
    lines = [NumberedLine(number, line(""), size) for number, size in enumerate((40, 40, 200, 10), 1)]
    assert [[one.number for one in group] for group in group_by_size(lines, 100)] == [[1, 2], [3], [4]]


# -- from the handler to the broker ---------------------------------------------------------------------


_log = logging.getLogger("shop.jobs")


@pytest.fixture(autouse=True)
def configured() -> None:
    log_output.configure("warrener-agent", level="info", scope_level="info")


@pytest.fixture
async def listening(stage: Stage) -> Stage:
    await stage.receive_from(LOGS_QUEUE.name)
    return stage


async def final(stage: Stage, job_id: UUID) -> list[LogEntry]:
    await stage.until(
        lambda: any(event.data.final for event in stage.of(AttemptLogged, job_id)), "the last lines"
    )
    found = {entry.number: entry for event in stage.of(AttemptLogged, job_id) for entry in event.data.lines}
    return [entry for _, entry in sorted(found.items())]


RED = (None, "output", "\ufffd\ufffd\x1b[31mred")  # it was neither UTF-8 nor storable
LOADED = ("info", "shop.jobs", "842 rows to load")
LEFT_OUT = ("warning", "", "a row was left out row=512")
STREAMS = [(None, "stderr", "err"), (None, "stdout", "out")]


@pytest.mark.parametrize(
    ("job_type", "arguments", "logged"),
    [
        ("logs.coroutine", {}, [LOADED, LEFT_OUT]),
        ("logs.thread", {}, [LOADED, LEFT_OUT]),
        ("logs.process", {}, [(None, "output", "printed"), LOADED, LEFT_OUT, RED]),
        ("logs.process", {"end": "die"}, [(None, "output", "printed"), LOADED, LEFT_OUT, RED]),
        ("logs.command", {"code": 0}, STREAMS),
        ("logs.command", {"code": 3}, STREAMS),
    ],
)
async def test_all_lines_arrive_from_every_executor_and_name_the_span_of_their_attempt(
    listening: Stage, job_type: str, arguments: dict[str, Any], logged: list[tuple[str | None, str, str]]
) -> None:
    await listening.enter(log_handlers.agent, agent_log_interval=0.1)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    job = await listening.dispatch(job_type, arguments, trace)
    found = await final(listening, job)
    lines = [(entry.level, entry.logger, entry.text) for entry in found]
    assert (sorted(lines, key=str) if logged is STREAMS else lines) == logged
    assert [entry.number for entry in found] == list(range(1, len(logged) + 1))
    assert {entry.trace_id for entry in found} == {"0af7651916cd43dd8448eb211c80319c"}
    assert all(entry.span_id for entry in found)
    (event, *_) = listening.of(AttemptLogged, job)
    assert (event.data.job_type, event.data.attempt) == (job_type, 1)


async def test_an_attempt_that_logs_nothing_or_of_which_nothing_is_to_be_stored_sends_nothing(
    listening: Stage,
) -> None:
    agent = Agent()

    @agent.job("quiet")
    async def quiet() -> None: ...

    @agent.job("loud")
    async def loud() -> None:
        _log.info("here")

    one = await listening.enter(agent, agent_log_interval=0.1)
    silent = (await listening.succeed("quiet")).job_id
    await final(listening, await listening.dispatch("loud"))
    assert not listening.of(AttemptLogged, silent)
    await listening.leave(one)
    await listening.enter(log_handlers.agent, agent_log_size_limit=0)
    unstored = (await listening.succeed("logs.thread")).job_id
    assert not listening.of(AttemptLogged, unstored)


class Refusing(MemoryBus):
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


async def test_last_lines_do_not_wait_for_the_interval_if_their_attempt_failed_or_their_agent_drains(
    listening: Stage,
) -> None:
    one = await listening.enter(log_handlers.agent, agent_log_interval=60.0)
    failed = await listening.dispatch("logs.thread", {"end": "fail"})
    assert len(await final(listening, failed)) == 2
    job = await listening.dispatch("logs.thread")
    await listening.wait_for_event(AttemptSucceeded, job)
    await one.drain()
    assert len(await final(listening, job)) == 2


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
    started = sum(record.get("action") == "attempt.started" for record in records)
    counted = [one["started"] for one in records if one.get("action") == "agent.attempts_counted"]
    assert (started, sum(counted)) == (20, 180), "20 a second"
