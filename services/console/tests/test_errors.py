"""Errors say what was expected, what came and what to do, with an exit code that means something."""

import socket
from collections.abc import Callable, Iterator

import pytest
from typer.testing import Result

Run = Callable[..., Result]


@pytest.fixture
def nobody() -> Iterator[str]:
    """The URL of a port on which nobody listens, held so that nobody begins to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"amqp://guest:secret@127.0.0.1:{held.getsockname()[1]}/"


@pytest.mark.parametrize(
    "words",
    [
        ("request", "a.b"),
        ("cancel", "01936f2e-8a3b-7c4d-9e5f-0123456789ab"),
        ("topology", "--declare"),
        ("topology", "--check"),
    ],
)
def test_a_broker_that_is_not_there(run: Run, nobody: str, words: tuple[str, ...]) -> None:
    told = run(*words, "--broker", nobody)
    assert told.exit_code == 3
    assert told.stdout == ""
    assert "expected a broker at amqp://guest:***@127.0.0.1:" in told.stderr
    assert "refused" in told.stderr.lower()
    assert "warrener up" in told.stderr


@pytest.mark.parametrize("command", ["jobs", "dead", "parked", "agents", "types"])
def test_a_store_without_tables(run: Run, command: str) -> None:
    told = run(command, "--store", "sqlite:///nothing.db")
    assert told.exit_code == 3
    assert "warrener migrate" in told.stderr


def test_a_store_of_an_unknown_kind(run: Run) -> None:
    told = run("jobs", "--store", "mongodb://localhost/")
    assert told.exit_code == 2
    assert "mongodb" in told.stderr


@pytest.mark.parametrize(
    ("words", "came"),
    [
        (("request", "a.b", "path"), "got 'path'"),
        (("request", "a.b", "{broken"), "as a JSON object, got '{broken'"),
        (("request", "a.b", "--from", "no-such.jsonl"), "No such file"),
        (("job", "abc"), "at least its last 4 characters, got 'abc'"),
    ],
)
def test_words_that_cannot_be_understood(
    run: Run, vhost_url: str, store_url: str, words: tuple[str, ...], came: str
) -> None:
    where = ("--store", store_url) if words[0] == "job" else ("--broker", vhost_url)
    told = run(*words, *where)
    assert (told.exit_code, told.stdout) == (2, "")
    assert came in told.stderr


def test_a_setting_that_cannot_be_used_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARRENER_BROKER_URL", "http://localhost")
    told = run("request", "a.b")
    assert told.exit_code == 2
    assert "WARRENER_BROKER_URL: expected a URL like amqp://" in told.stderr
