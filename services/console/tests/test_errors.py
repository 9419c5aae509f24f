"""Errors read "expected X, got Y" with advice, and end with a meaningful exit code."""

import socket
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from typer.testing import Result

Run = Callable[..., Result]


@pytest.fixture
def nobody() -> Iterator[str]:
    """URL of a port without a listener, reserved so that none begins."""
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
    result = run(*words, "--broker", nobody)
    assert result.exit_code == 3
    assert result.stdout == ""
    assert "expected a broker at amqp://guest:***@127.0.0.1:" in result.stderr
    assert "refused" in result.stderr.lower()
    assert "warrener up" in result.stderr


@pytest.mark.parametrize("command", ["jobs", "migrate"])
def test_a_store_of_an_unknown_kind(run: Run, command: str) -> None:
    result = run(command, "--store", "mongodb://localhost/")
    assert result.exit_code == 2
    assert "mongodb" in result.stderr
    assert "--store" in result.stderr


@pytest.mark.parametrize("command", ["jobs", "migrate"])
def test_a_database_that_does_not_let_us_in(run: Run, postgres_url: str, command: str) -> None:
    where = urlsplit(postgres_url)
    password = postgres_url.replace(f":{where.password}@", ":wrong-one@")
    database = postgres_url.replace(where.path, "/no_such_database")
    port = f"postgresql://warrener:secret@127.0.0.1:1{where.path}"
    for url, advice in [(password, "check user and password"), (database, "createdb"), (port, "start the")]:
        result = run(command, "--store", url)
        assert (result.exit_code, result.stdout) == (3, "")
        assert advice in result.stderr
        assert "tried again" not in result.stderr
        assert "wrong-one" not in result.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("request", "a.b"), 2),
        (("topology", "--check"), 2),
        (("topology", "--declare"), 2),
        (("up",), 2),
        (("doctor", "--store", "sqlite:///nothing.db"), 1),
    ],
)
@pytest.mark.parametrize(
    "url", ["localhost", "http://localhost/", "amqp://host:port/", "amqp://h/?heartbeat=x"]
)
def test_a_brokers_url_that_is_none(run: Run, words: tuple[str, ...], code: int, url: str) -> None:
    result = run(*words, "--broker", url)
    assert result.exit_code == code
    assert "expected a broker's URL like amqp://host:5672/vhost, got" in result.output


@pytest.mark.parametrize("words", [("request", "a.b"), ("topology", "--check"), ("up",)])
def test_a_broker_that_does_not_let_us_in(run: Run, vhost_url: str, words: tuple[str, ...]) -> None:
    user = urlsplit(vhost_url).username
    for url, came in [
        (vhost_url.replace(f"{user}:", f"{user}:no-", 1), "ACCESS_REFUSED"),
        (f"{vhost_url}-none", "not found"),
    ]:
        result = run(*words, "--broker", url)
        assert (result.exit_code, result.stdout) == (3, "")
        assert f"to let user '{user}' into virtual host" in result.stderr
        assert came in result.stderr
        assert "create the user" in result.stderr


def test_up_with_a_broker_that_is_not_there(run: Run, nobody: str) -> None:
    result = run("up", "--broker", nobody)
    assert result.exit_code == 3
    assert "leave --broker out for a private one" in result.stderr


@pytest.mark.parametrize(
    ("words", "came"),
    [
        (("request", "a.b", "path"), "got 'path'"),
        (("request", "a.b", "{broken"), "as a JSON object, got '{broken'"),
        (("request", "a.b", "--from", "no-such.jsonl"), "No such file"),
        (("job", "abc"), "got 'abc': no job has it, and its beginning or end needs 8 characters"),
    ],
)
def test_words_that_cannot_be_understood(
    run: Run, vhost_url: str, store_url: str, words: tuple[str, ...], came: str
) -> None:
    where = ("--store", store_url) if words[0] == "job" else ("--broker", vhost_url)
    result = run(*words, *where)
    assert (result.exit_code, result.stdout) == (2, "")
    assert came in " ".join(result.stderr.split()), "wherever the terminal ends a line"


def test_a_setting_that_cannot_be_used_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARRENER_BROKER_URL", "http://localhost")
    result = run("request", "a.b")
    assert result.exit_code == 2
    assert "WARRENER_BROKER_URL: expected a URL like amqp://" in result.stderr
