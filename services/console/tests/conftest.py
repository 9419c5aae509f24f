"""The command is tested as people use it: by its words, its answers and its exit codes."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.stand_in import stand_in
from tests.store_access import on_store
from typer.testing import CliRunner, Result

from warrener.command.app import app
from warrener_client.testing import StandIn
from warrener_store import Store
from warrener_store.jobs.rows import JobRow, Save

Run = Callable[..., Result]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and nothing of Warrener in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in [each for each in os.environ if each.startswith("WARRENER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "dumb")
    return tmp_path


@pytest.fixture
def run(here: Path) -> Run:
    """Runs `warrener WORDS…` in the empty folder."""
    assert here.is_dir()
    runner = CliRunner()

    def command(*words: str, stdin: str | None = None) -> Result:
        result = runner.invoke(app, words, input=stdin, prog_name="warrener")
        assert "Traceback" not in result.output, result.output
        return result

    return command


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_store_url(here: Path, request: pytest.FixtureRequest) -> str:
    """A place for a store, without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{here}/state.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(here: Path, request: pytest.FixtureRequest) -> str:
    """A store with tables and nothing in them, of either kind."""
    assert here.is_dir()
    return str(request.getfixturevalue(f"{request.param}_store_url"))


def put_jobs(url: str, *rows: JobRow, saves: Sequence[Save] = ()) -> None:
    """Store jobs, and then these changes of them."""

    async def put(store: Store) -> None:
        await store.insert_jobs(rows)
        for save in saves:
            await store.save_jobs([save])

    on_store(url, put)


@pytest.fixture
def warren(vhost_url: str) -> Iterator[StandIn]:
    """A stand-in for the services, whose agent greets."""
    with stand_in(vhost_url) as made:
        yield made
