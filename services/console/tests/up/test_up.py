"""The parts of `up`: its processes, their environment, their output, and their end."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.store_rows import job_type_row

from warrener.command.services import choose_log_levels
from warrener.up import processes
from warrener.up.output import JsonOutput, LogLine, QuietOutput, banner_lines, example_request, read_line
from warrener.up.processes import LogLevels, ProcessSpec, build_environment
from warrener_runtime.running_up import Endpoints

ENDPOINTS = Endpoints("amqp://b/", "sqlite:///s.db", "sqlite:///l.db")


class RecordingOutput(JsonOutput):
    """Records every event and line, and lets a test wait for one."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, str]] = []
        self._changed = asyncio.Event()

    def event(self, event: str, message: str, *, source: str = "up", **facts: Any) -> None:
        self._add(event, source)

    def line(self, source: str, line: LogLine) -> None:
        self._add("line", line.message)

    def _add(self, what: str, message: str) -> None:
        self.recorded.append((what, message))
        self._changed.set()

    async def until(self, what: str, times: int = 1) -> None:
        """Wait until this was recorded this number of times."""
        async with asyncio.timeout(60):
            while sum(what in pair for pair in self.recorded) < times:
                self._changed.clear()
                await self._changed.wait()


async def test_the_first_signal_drains_the_second_hurries_and_the_third_kills() -> None:
    stubborn = (
        "import signal\n"
        "stops = {signal.SIGTERM, signal.SIGINT}\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, stops)\n"
        "print('here', flush=True)\n"
        "while signal.sigwait(stops): print('no', flush=True)\n"
    )
    output = RecordingOutput()
    spec = ProcessSpec("agent", "agent", (sys.executable, "-c", stubborn))
    environment = build_environment(spec, os.environ, ENDPOINTS, LogLevels())
    shutdown, child = processes.Shutdown(output), processes.SupervisedProcess(spec, environment, output)
    task = asyncio.create_task(child.run())
    try:
        await output.until("here")
        shutdown.request()
        end = asyncio.create_task(shutdown.stop_all({task: child}))
        await output.until("no")
        shutdown.request()
        await output.until("no", times=2)
        assert shutdown.hurried
        shutdown.request()
        async with asyncio.timeout(60):
            await end
    finally:
        child.stop(signal.SIGKILL)
        await asyncio.wait({task}, timeout=60)
    assert [what for what, _ in output.recorded if what != "line"] == [
        *("started", "draining", "releasing", "killed", "stopped")
    ]


@pytest.mark.parametrize(
    ("modules", "agents", "expected"),
    [(["shop"], 2, ["agent-1", "agent-2"]), (["shop"], 1, ["agent"]), ([], 3, [])],
)
def test_there_are_one_scheduler_one_supervisor_and_as_many_agents_as_requested(
    modules: list[str], agents: int, expected: list[str]
) -> None:
    found = processes.process_specs(modules, agents, None)
    assert [each.name for each in found] == ["scheduler", "supervisor", *expected]


def test_a_process_gets_the_urls_and_options_that_it_needs_alone() -> None:
    scheduler, _, agent = processes.process_specs(["shop"], 1, 5)
    found = build_environment(scheduler, {"HOME": "/x"}, ENDPOINTS, LogLevels())
    assert found["WARRENER_STORE_URL"] == "sqlite:///s.db"
    assert "WARRENER_LEDGER_URL" not in found
    assert agent.command[1:] == ("-m", "warrener_agent", "shop", "--slots", "5")
    assert "WARRENER_STORE_URL" not in build_environment(agent, {}, ENDPOINTS, LogLevels())
    console = processes.console_spec(7)
    assert (console.command[-2:], console.inherited) == (("--listen-fd", "7"), (7,))
    found = build_environment(console, {"WARRENER_CONSOLE_HOST": "0.0.0.0"}, ENDPOINTS, LogLevels())
    assert (found["WARRENER_CONSOLE_HOST"], found["WARRENER_STORE_URL"]) == ("127.0.0.1", "sqlite:///s.db")


def test_log_records_are_taken_apart_and_other_lines_stand_as_they_are() -> None:
    record = (
        '{"message": "A job is dead.", "level": "warning", "service": "s", "job_id": 7, "exception": "a\\nb"}'
    )
    assert read_line(record) == LogLine("A job is dead.", "warning", {"job_id": 7}, ("a", "b"), "s")
    for text in ("greeting World", '{"a": 1}', "{not json"):
        assert read_line(text) == LogLine(text)


def test_a_record_with_the_names_of_an_event_has_its_line_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    fields = {"message": "read", "level": "info", "source": "csv", "event": "row", "self": 1}
    record = json.dumps(fields | {"service": "s"})
    JsonOutput().line("agent-1", read_line(record))
    found = json.loads(capsys.readouterr().out)
    assert (found["message"], found["source"], found["event"], found["self"]) == ("read", "csv", "row", 1)


def test_handlers_lines_are_stored_from_info_on_and_the_terminal_shows_warnings_and_what_is_printed() -> None:
    scheduler, _, agent = processes.process_specs(["shop"], 1, None)
    levels, name = LogLevels("warning", "info"), "WARRENER_AGENT_HANDLER_LOG_LEVEL"
    found = build_environment(agent, {}, ENDPOINTS, levels)
    assert (found["WARRENER_LOG_LEVEL"], found[name]) == ("warning", "info")
    assert name not in build_environment(scheduler, {}, ENDPOINTS, levels)
    assert build_environment(agent, {name: "debug"}, ENDPOINTS, LogLevels())[name] == "debug"

    shown = RecordingOutput()
    quiet = QuietOutput(shown)
    for level in ("debug", "info", "warning", "error"):
        quiet.line(
            "agent", read_line(f'{{"message": "{level}", "level": "{level}", "service": "warrener-agent"}}')
        )
    quiet.line("agent", read_line("printed"))
    quiet.line("agent", read_line('{"message": "printed by a program", "level": "info"}'))
    quiet.event("exited", "it ended", source="agent")
    lines = ("warning", "error", "printed", "printed by a program")
    assert shown.recorded == [*(("line", text) for text in lines), ("exited", "agent")]


def test_the_users_own_level_of_handlers_lines_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WARRENER_AGENT_HANDLER_LOG_LEVEL", raising=False)
    assert choose_log_levels(verbose=False) == LogLevels("warning", "info")
    assert choose_log_levels(verbose=True) == LogLevels("info", None)
    (tmp_path / "warrener.toml").write_text("[agent]\nagent_handler_log_level = 'debug'\n", encoding="utf-8")
    assert choose_log_levels(verbose=False) == LogLevels("warning", None)
    (tmp_path / "warrener.toml").unlink()
    monkeypatch.setenv("WARRENER_AGENT_HANDLER_LOG_LEVEL", "error")
    assert choose_log_levels(verbose=False) == LogLevels("warning", None)


def test_the_banner_shows_a_request_that_can_be_tried() -> None:
    row = job_type_row("hello.greet", arguments_schema={"required": ["name"]})
    assert example_request(row) == "warrener request hello.greet name=… --wait"
    found = dict(banner_lines(ENDPOINTS, "RabbitMQ 4.0", 2, [row]))
    assert (found["agents"], found["jobs"], found["store"]) == ("2", "hello.greet", "s.db")
    assert "console" not in found
    url = "http://127.0.0.1:8765/"
    assert dict(banner_lines(ENDPOINTS, "RabbitMQ 4.0", 0, [], console_url=url))["console"] == url
    assert "warrener agent MODULE" in dict(banner_lines(ENDPOINTS, "RabbitMQ 4.0", 0, []))["agents"]


def test_the_banner_has_no_password() -> None:
    elsewhere = Endpoints("amqp://shop:secret@broker/shop", "sqlite:///s.db", "sqlite:///l.db")
    found = dict(banner_lines(elsewhere, "RabbitMQ 4.0", 0, []))
    assert found["export"] == 'eval "$(warrener env)"'
    assert "secret" not in found["broker"]
