"""The pages as printed: the first hour, the tutorial, and every Python block."""

import re
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.acceptance.command_line import run_in
from tests.acceptance.reader import PAGES, blocks, programs, run, run_both, terminal, write_files
from tests.acceptance.warren import ROOT, until
from tests.store_access import on_store

from warrener_contracts.identity import job_id_of
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobFilter, JobRow

PAGE = ROOT / "README.md"
README = PAGE.read_text()
FILES = [(name, text) for page in PAGES for name, text in programs(page).items()]


def test_the_first_page_is_short_and_shows_code_early() -> None:
    lines = README.splitlines()
    assert len(lines) < 150
    assert next(number for number, line in enumerate(lines, start=1) if line.startswith("```python")) < 30
    assert set(programs(PAGE)) == {"hello.py", "request.py", "accounts.py"}
    assert len(dict(FILES)) == len(FILES), "no two pages give different files one name"


def test_the_first_hour_as_printed(tmp_path: Path) -> None:
    folder = tmp_path
    write_files(folder, programs(PAGE))
    commands = iter(blocks(PAGE, "sh"))
    starts = next(block for block in commands if "warrener up" in block)
    with terminal(folder, starts.splitlines()[-1]) as shown:
        export = 'eval "$(warrener env)"'
        until(lambda: export in shown.read_text(), "the lines below the first one of the banner")
        answers = run(folder, next(commands))
        assert "Hello, World!" in answers
        assert "2 greeted, 0 failed" in answers
        greeting, noticed = run_both(folder, "python request.py")
        assert greeting == "Hello, Ada!"
        assert noticed.count("using the `warrener up` of this folder") == 1

        from_elsewhere = next(commands)
        assert "amqp-publish" in from_elsewhere
        if shutil.which("amqp-publish") is not None:
            run(folder, from_elsewhere)
            order = job_id_of("shop", "order-17")
            found = until(lambda: succeeded(folder, order=str(order)), "order-17")
            assert found.result == "Hello, Grace!"
        elsewhere = "cd /; warrener request hello.greet name=There --wait"
        assert run(folder, f'eval "$(warrener env)"; {elsewhere}') == '"Hello, There!"'

    with terminal(folder, next(commands)):
        assert run(folder, next(commands)) == str(len("Alan"))
        child = until(lambda: succeeded(folder, name="Alan"), "the child job")
        assert child.result == "Hello, Alan!"


def succeeded(folder: Path, *, order: str | None = None, name: str | None = None) -> JobRow | None:
    """The job of this id, or the greeting of this name, once it has succeeded."""
    greetings = JobFilter(job_type="hello.greet", states=(JobState.SUCCEEDED,))
    jobs = on_store(f"sqlite:///{folder}/.warrener/state.db", lambda store: store.list_jobs(greetings))
    wanted = (row for row in jobs if str(row.job_id) == order or row.arguments.get("name") == name)
    return next(wanted, None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with all files of all pages, and the system that the pages speak of."""
    folder = tmp_path_factory.mktemp("reader")
    write_files(folder, dict(FILES))
    with terminal(folder, "warrener up hello bank canvas warrener_agent.canvas"):
        yield folder


@pytest.mark.timeout(400)  # the first one with the start of the system
@pytest.mark.parametrize("name", [name for name, _ in FILES])
def test_a_program_of_a_page_runs_as_pasted(folder: Path, name: str) -> None:
    by = "python -m pytest -q -o asyncio_mode=auto" if name.startswith("test_") else "python"
    run(folder, f"{by} {name}")


TUTORIAL = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LOOKS = ("warrener job ", "warrener explain", "warrener schedule show", "warrener dead-letters")
"""The beginnings of commands that change nothing: a reader repeats them until the page is right."""


@pytest.mark.timeout(900)
def test_the_tutorial_as_printed(tmp_path: Path) -> None:
    folder = tmp_path / "parcels"
    first, *steps = BLOCK.findall(TUTORIAL.read_text("utf-8"))
    assert run_in(tmp_path, "sh", "-c", first[1]).returncode == 0
    write_files(folder, programs(TUTORIAL))
    with ExitStack() as terminals:
        for language, block in steps:
            if language == "console":
                for command, answer in dialogue(block):
                    converse(folder, command, answer)
            elif block.startswith("warrener up"):
                terminals.enter_context(terminal(folder, block))
            else:  # kills it
                assert run_in(folder, "sh", "-c", block).returncode == 0
                terminals.close()
        [console] = re.findall(r"http://127\.0\.0\.1:\d+", (folder / "terminal.txt").read_text())
        with urllib.request.urlopen(f"{console}/jobs/night-shift", timeout=30) as page:
            assert "parcels.sort" in page.read().decode()


def dialogue(block: str) -> Iterator[tuple[str, str]]:
    """The commands of a block, each with the answer below it."""
    for part in block.removeprefix("$ ").split("\n$ "):
        command, _, answer = part.partition("\n")
        yield command, answer


def converse(folder: Path, command: str, answer: str) -> None:
    """Run a command; its answer fits the page, at once or, if it only looks, some time later."""
    fits = re.compile(".*".join(map(re.escape, plain(answer).split("…"))), re.DOTALL)
    looks = command.startswith(LOOKS) and " redrive " not in command
    replies: list[str] = []

    def answered() -> bool:
        done = run_in(folder, "env", "COLUMNS=120", "sh", "-c", f"exec 2>&1\n{command}")
        replies.append(done.stdout)
        return done.returncode == 0 and fits.search(plain(replies[-1])) is not None

    try:
        until(answered, "the answer of the page", within=120 if looks else 0)
    except AssertionError:
        pytest.fail(f"expected of {command}:\n{answer}\ngot:\n{replies[-1]}")


def plain(text: str) -> str:
    """A text without the widths of columns."""
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())
