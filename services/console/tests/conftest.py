"""The command is tested as people use it: by its words, its answers and its exit codes."""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from warrener.command.app import app
from warrener_client.sync import LoopThread
from warrener_client.testing import StandIn
from warrener_contracts.events import Event
from warrener_runtime.bus import open_bus

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


def greet(given: dict[str, object]) -> str:
    if given.get("name") == "nobody":
        raise ValueError("nobody is there")
    return f"Hello, {given['name']}!"


@contextmanager
def stand_in(url: str, *, refuse: Callable[[Event[Any]], str | None] = lambda _: None) -> Generator[StandIn]:
    """A stand-in for the services, whose agent greets."""

    async def begin() -> StandIn:
        bus = open_bus(url, name="stand-in")
        return await StandIn(bus, {"hello.greet": greet}, refuse=refuse).__aenter__()

    there = LoopThread("stand-in")
    there.start()
    made = there.run(begin())
    yield made
    there.run(made.__aexit__(None, None, None))
    there.stop()


@pytest.fixture
def warren(vhost_url: str) -> Iterator[StandIn]:
    """A stand-in for the services, whose agent greets."""
    with stand_in(vhost_url) as made:
        yield made
