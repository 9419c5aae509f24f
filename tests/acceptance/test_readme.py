"""The first hour: a fresh folder, the README's text alone, its commands as printed and in its order."""

import re
import shutil
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.acceptance.command_line import BARE, run_in
from tests.acceptance.warren import ROOT, until
from tests.store_access import on_store

from warrener_contracts.identity import job_id_of
from warrener_contracts.state_machine import JobState
from warrener_devservers import RabbitMQInstallation, ServerMissing
from warrener_store.jobs.rows import JobFilter, JobRow

README = (ROOT / "README.md").read_text()
PYTHON = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", README, re.DOTALL))
SHELL: list[str] = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A fresh folder with the files of the page."""
    try:
        RabbitMQInstallation.of_this_machine()
    except ServerMissing as missing:
        pytest.skip(str(missing))
    for name, text in PYTHON.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_first_page_is_short_and_shows_code_early() -> None:
    lines = README.splitlines()
    assert len(lines) < 150
    assert next(number for number, line in enumerate(lines, start=1) if line.startswith("```python")) < 30
    assert set(PYTHON) == {"hello.py", "request.py", "accounts.py"}


def test_every_link_of_the_first_page_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_first_hour_as_printed(folder: Path) -> None:
    blocks = iter(SHELL)
    starts = next(block for block in blocks if "warrener up" in block)
    with terminal(folder, starts.splitlines()[-1]) as shown:
        export = "export WARRENER_BROKER_URL=amqp://guest:guest@127.0.0.1:"
        until(lambda: export in shown.read_text(), "the lines below the first one of the banner")
        assert "Hello, World!" in run(folder, next(blocks))
        greeting, noticed = run_both(folder, "python request.py")
        assert greeting == "Hello, Ada!"
        assert noticed.count("using the `warrener up` of this folder") == 1

        from_elsewhere = next(blocks)
        assert "amqp-publish" in from_elsewhere
        if shutil.which("amqp-publish") is not None:
            run(folder, from_elsewhere)
            order = job_id_of("shop", "order-17")
            found = until(lambda: succeeded(folder, order=str(order)), "order-17")
            assert found.result == "Hello, Grace!"
        elsewhere = "cd /; warrener request hello.greet name=There --wait"
        assert run(folder, f'eval "$(warrener env)"; {elsewhere}') == '"Hello, There!"'

    with terminal(folder, next(blocks)):
        assert run(folder, next(blocks)) == str(len("Alan"))
        child = until(lambda: succeeded(folder, name="Alan"), "the child job")
        assert child.result == "Hello, Alan!"


@contextmanager
def terminal(folder: Path, command: str) -> Generator[Path]:
    """The command `warrener up` in a terminal of its own until it is ready; then Ctrl-C."""
    shown = folder / "terminal.txt"
    with shown.open("w") as output:
        words = re.sub(r"\s+#.*", "", command).split()
        up = subprocess.Popen(words, cwd=folder, env=BARE, stdout=output, stderr=subprocess.STDOUT)
        try:
            until(lambda: up.poll() is not None or "is ready" in shown.read_text(), "up", within=120)
            assert up.poll() is None, shown.read_text()
            yield shown
            up.send_signal(signal.SIGINT)
            assert up.wait(90) == 0, shown.read_text()
        finally:
            up.kill()
            up.wait(30)


def run(folder: Path, command: str) -> str:
    """The answer of a command, in the reader's folder, with the venv on the path."""
    return run_both(folder, command)[0]


def run_both(folder: Path, command: str) -> tuple[str, str]:
    """The answer of a command, and its messages."""
    done = run_in(folder, "sh", "-c", command)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip(), done.stderr


def succeeded(folder: Path, *, order: str | None = None, name: str | None = None) -> JobRow | None:
    """The job of this id, or the greeting of this name, once it has succeeded."""
    greetings = JobFilter(job_type="hello.greet", states=(JobState.SUCCEEDED,))
    jobs = on_store(f"sqlite:///{folder}/.warrener/state.db", lambda store: store.list_jobs(greetings))
    wanted = (row for row in jobs if str(row.job_id) == order or row.arguments.get("name") == name)
    return next(wanted, None)
