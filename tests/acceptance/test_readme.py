"""The first hour: a fresh folder, the README's text alone, its commands as printed and in its order."""

import re
import shutil
from pathlib import Path

import pytest
from tests.acceptance.reader import blocks, programs, run, run_both, terminal, write_files
from tests.acceptance.warren import ROOT, until
from tests.store_access import on_store

from warrener_contracts.identity import job_id_of
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobFilter, JobRow

PAGE = ROOT / "README.md"
README = PAGE.read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A fresh folder with the files of the page."""
    write_files(tmp_path, programs(PAGE))
    return tmp_path


def test_the_first_page_is_short_and_shows_code_early() -> None:
    lines = README.splitlines()
    assert len(lines) < 150
    assert next(number for number, line in enumerate(lines, start=1) if line.startswith("```python")) < 30
    assert set(programs(PAGE)) == {"hello.py", "request.py", "accounts.py"}


def test_every_link_of_the_first_page_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_first_hour_as_printed(folder: Path) -> None:
    commands = iter(blocks(PAGE, "sh"))
    starts = next(block for block in commands if "warrener up" in block)
    with terminal(folder, starts.splitlines()[-1]) as shown:
        export = "export WARRENER_BROKER_URL=amqp://guest:guest@127.0.0.1:"
        until(lambda: export in shown.read_text(), "the lines below the first one of the banner")
        assert "Hello, World!" in run(folder, next(commands))
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
