"""`warrener up`, as a person uses it: one command, a whole Warrener; whatever is killed, the work goes on."""

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.acceptance.command_line import BARE, run_in
from tests.acceptance.warren import until

from warrener_devservers import RabbitMQInstallation, ServerMissing

HANDLERS = """
import logging
import os
import signal
from pathlib import Path

from warrener_agent import Agent, JobContext

agent = Agent()

@agent.job("hello.greet")
async def greet(job: JobContext, name: str) -> str:
    print("greeting", name)
    return f"Hello, {name}!"

@agent.job("hello.fail", max_attempts=1)
async def fail(job: JobContext) -> None:
    logging.getLogger("hello").info("about to fail")
    raise ValueError("nothing works today")

@agent.job("hello.end", max_attempts=2, max_crashes=2)
async def end() -> None:
    with Path("runs").open("a") as runs:
        runs.write("one\\n")
    os.kill(os.getpid(), signal.SIGKILL)
"""


class RunningUp:
    """A `warrener up --json` and all that it has said."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        self.lines: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "warrener", "up", "hello", "--json", *words],
            cwd=folder,
            env=BARE,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def events(self, event: str, of: str = "") -> list[dict[str, Any]]:
        """The events of this kind, of this process."""
        return [line for line in self.lines if line["event"] == event and of in line["source"]]

    def until(self, event: str, of: str = "", *, times: int = 1) -> dict[str, Any]:
        """Until it has said this so often; the last of them."""

        def fact() -> list[dict[str, Any]]:
            assert self.process.poll() is None, f"up ended: {self.lines[-10:]} {self.errors()}"
            found = self.events(event, of)
            return found if len(found) >= times else []

        return until(fact, f"{event} of {of or 'anybody'} ({times} times)", within=120)[-1]

    def everything(self) -> list[psutil.Process]:
        """It, and all processes below it."""
        root = psutil.Process(self.process.pid)
        return [root, *root.children(recursive=True)]

    def command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Another command in the same folder."""
        return run_in(self.folder, "warrener", *words)

    def wait_ended(self) -> int:
        """Its exit code, once all that it has said is read: what it said last may still be in the pipe."""
        code = self.process.wait(90)
        self._listening.join(30)
        assert not self._listening.is_alive(), "somebody holds its stdout open"
        return code

    def errors(self) -> str:
        """What it wrote to stderr, once it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def end(self) -> None:
        """Whatever the test left."""
        self.process.kill()
        self.process.wait(30)
        self._listening.join(30)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(json.loads(line))


@pytest.mark.timeout(400)
def test_whatever_is_killed_the_work_goes_on_and_ctrl_c_ends_it_all(tmp_path: Path) -> None:
    try:
        RabbitMQInstallation.of_this_machine()
    except ServerMissing as missing:
        pytest.skip(str(missing))
    (tmp_path / "hello.py").write_text(HANDLERS, encoding="utf-8")
    up = RunningUp(tmp_path)
    try:
        ready = up.until("ready")
        use_and_kill_services(up, ready)
        everything = up.everything()
        assert len(everything) >= 6  # up, three services, the broker's guard and the broker
        later = up.command("request", "hello.greet", "name=later", "--delay", "1s").stdout.strip()
        up.process.kill()
        _, alive = psutil.wait_procs(everything, timeout=60)
        assert not alive, "when up itself is killed nothing stays"
    finally:
        up.end()

    following = RunningUp(tmp_path)
    try:
        following.until("ready")
        ended = following.command("job", later, "--wait", "--json")
        assert json.loads(ended.stdout)["result"] == "Hello, later!"
        everything = following.everything()
        following.process.send_signal(signal.SIGINT)
        assert following.wait_ended() == 0, following.errors()
        assert [line["event"] for line in following.lines[-2:]] == ["draining", "stopped"]
        _, alive = psutil.wait_procs(everything, timeout=60)  # the broker's helpers end once they miss it
        assert not alive
    finally:
        following.end()


def use_and_kill_services(up: RunningUp, ready: dict[str, Any]) -> None:
    assert ready["job_types"] == ["hello.end", "hello.fail", "hello.greet"]
    assert set(ready["processes"]) == {"scheduler", "supervisor", "agent"}
    with urllib.request.urlopen(f"{ready['console_url']}about", timeout=60) as page:
        assert "About this console" in page.read().decode()

    greeted = up.command("request", "hello.greet", "name=World", "--wait")
    assert (greeted.returncode, greeted.stdout) == (0, '"Hello, World!"\n'), greeted.stderr
    failed = up.command("request", "hello.fail", "--wait", "--json")
    assert (failed.returncode, json.loads(failed.stdout)["error"]["message"]) == (4, "nothing works today")
    job_id = json.loads(failed.stdout)["job_id"]

    def stored_lines() -> list[tuple[str, str, str]]:
        shown = up.command("job", job_id, "--logs", "--json")
        assert shown.returncode == 0, shown.stderr
        return [(line["level"], line["logger"], line["text"]) for line in json.loads(shown.stdout)["lines"]]

    assert ("info", "hello", "about to fail") in until(stored_lines, f"log lines of {job_id}")
    assert {line["level"] for line in up.events("log", "agent")} <= {"print", "warning", "error"}

    # A job that ends its agent is dead for good (G2): under `up` nobody else lives to receive it.
    ended = up.command("request", "hello.end", "--wait", "--timeout", "120")
    assert ended.returncode == 4
    assert "lost: agent" in ended.stderr
    for number in range(3):  # what is left of the dead job would be delivered before these
        greeted = up.command("request", "hello.greet", f"name=n{number}", "--wait", "--timeout", "80")
        assert greeted.stdout == f'"Hello, n{number}!"\n', greeted.stderr
    assert len((up.folder / "runs").read_text().splitlines()) == 2
    assert len(up.events("started", "agent")) == 1 + 2

    for name, pid in (ready["processes"] | {"agent": up.events("started", "agent")[-1]["pid"]}).items():
        started = len(up.events("started", name))
        os.kill(pid, signal.SIGKILL)
        up.until("started", name, times=started + 1)
        death = up.events("exited", name)[-1]
        assert (death["exit_code"], death["restart_delay"] > 0) == (-signal.SIGKILL, True)
    again = up.command("request", "hello.greet", "name=again", "--wait", "--timeout", "80")
    assert (again.returncode, again.stdout) == (0, '"Hello, again!"\n'), again.stderr

    second = up.command("up")
    assert second.returncode == 1
    assert str(up.process.pid) in second.stderr

    page = json.loads(up.command("job", job_id[-12:], "--json").stdout)
    assert (page["state"], page["attempts"][0]["outcome"]) == ("dead", "failed")
    assert {row["state"] for row in json.loads(up.command("jobs", "--json").stdout)} == {"succeeded", "dead"}
    assert up.command("doctor").returncode == 0


def test_up_with_a_broker_and_a_database_that_are_there(
    tmp_path: Path, vhost_url: str, postgres_url: str
) -> None:
    (tmp_path / "hello.py").write_text(HANDLERS, encoding="utf-8")
    there = RunningUp(tmp_path, "--broker", vhost_url, "--store", postgres_url, "--ledger", postgres_url)
    try:
        ready = there.until("ready")
        assert ready["job_types"] == ["hello.end", "hello.fail", "hello.greet"]
        assert not there.events("started", "broker")
        greeted = there.command("request", "hello.greet", "name=World", "--wait")
        assert (greeted.returncode, greeted.stdout) == (0, '"Hello, World!"\n'), greeted.stderr
        failed = there.command("request", "hello.fail", "--wait", "--json")
        job_id = json.loads(failed.stdout)["job_id"]
        assert [row["job_id"] for row in json.loads(there.command("dead-letters", "--json").stdout)] == [
            job_id
        ]

        doctor = there.command("doctor", "--json")
        found = {each["check"]: each["message"] for each in json.loads(doctor.stdout)}
        assert doctor.returncode == 0, found
        assert found["store"].startswith("postgresql://")
        assert "the database" in found["clocks"]

        there.process.send_signal(signal.SIGINT)
        assert there.wait_ended() == 0, there.errors()
    finally:
        there.end()
    # All that was done stands in the database, which nobody holds any more.
    after = there.command("jobs", "--json", "--store", postgres_url)
    assert {row["state"] for row in json.loads(after.stdout)} == {"succeeded", "dead"}


def test_a_module_that_cannot_be_imported_ends_up_with_one_sentence(tmp_path: Path, vhost_url: str) -> None:
    (tmp_path / "broken.py").write_text("import no_such_package\n", encoding="utf-8")
    ended = run_in(tmp_path, "warrener", "up", "broken", "--broker", vhost_url)
    assert ended.returncode == 1
    sentence = "expected the agent to start, got: expected broken to be imported, got ModuleNotFoundError: "
    assert sentence in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stdout
