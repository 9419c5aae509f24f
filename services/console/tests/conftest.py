"""The command is tested as people use it: by its words, its answers and its exit codes."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from warrener.command.app import app
from warrener_client.loop_thread import LoopThread
from warrener_client.testing import StandIn
from warrener_runtime.bus import open_bus
from warrener_store import migrate

Run = Callable[..., Result]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and nothing of Warrener in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("WARRENER_BROKER_URL", "WARRENER_STORE_URL", "WARRENER_LEDGER_URL", "WARRENER_CONFIG"):
        monkeypatch.delenv(name, raising=False)
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


@pytest.fixture
def store_url(here: Path) -> str:
    """A store with tables and nothing in them."""
    url = f"sqlite:///{here}/state.db"
    asyncio.run(migrate(url))
    return url


def greet(given: dict[str, object]) -> str:
    if given.get("name") == "nobody":
        raise ValueError("nobody is there")
    return f"Hello, {given['name']}!"


@pytest.fixture
def warren(vhost_url: str) -> Iterator[StandIn]:
    """Somebody who greets."""

    async def begin() -> StandIn:
        return await StandIn(open_bus(vhost_url, name="stand-in"), {"hello.greet": greet}).__aenter__()

    there = LoopThread("stand-in")
    there.start()
    made = there.run(begin())
    yield made
    there.run(made.__aexit__(None, None, None))
    there.stop()
