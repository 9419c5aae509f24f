"""A console for this machine alone; tokens, secrets, signatures and limits: what is tried against them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from services.console.tests.web.conftest import Browser, OpenBrowser
from starlette.types import Message, Receive, Scope, Send

from warrener.errors import CommandError
from warrener.operations.roles import Role
from warrener.web.access.guard import OpenGuard
from warrener.web.access.middleware import RequestLimits
from warrener.web.access.origins import is_loopback_host, safe_path
from warrener.web.access.sessions import LoginLimiter, build_guard
from warrener.web.access.signing import Signer, read_secret
from warrener.web.access.tokens import make_token, parse_tokens
from warrener.web.console import Console
from warrener.web.settings import ConsoleSettings, check_access

from .conftest import SITE, csrf_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
BEFORE = NOON - timedelta(seconds=1)
SIGNER = Signer(b"x" * 32)
ACT, ACT_BY_API = "/places/berlin/admin", "/api/v1/places/berlin/admin"


@pytest.fixture
def local(open_browser: OpenBrowser) -> Browser:
    return open_browser(SITE, OpenGuard())


async def test_a_page_whose_name_was_bound_to_this_machine_sees_nothing(local: Browser) -> None:
    for host in ("127.0.0.1:8765", "localhost:8765", "[::1]:8765", "localhost", "warrener.localhost:1"):
        assert (await local.get("/", headers={"Host": host})).status_code == 200, host
    others = ("evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example", "192.0.2.1:8765", "")
    for host in others:
        answer = await local.get("/", headers={"Host": host})
        assert (answer.status_code, "expected an address of this machine" in answer.text) == (403, True), host
    assert (await local.get("/", headers={"X-Forwarded-For": "192.0.2.1"})).status_code == 403


async def test_a_page_of_another_site_cannot_act_on_this_machine(
    local: Browser, open_browser: OpenBrowser
) -> None:
    token = {"csrf_token": csrf_of((await local.get("/")).text)}
    other = csrf_of((await open_browser(SITE, OpenGuard()).get("/")).text)
    assert other != token["csrf_token"]
    for data in ({}, {"csrf_token": "open"}, {"csrf_token": other}):
        assert (await local.post(ACT, data=data)).status_code == 403
    elsewhere = {"Origin": "https://evil.example"}
    for headers in (elsewhere, {"Referer": "http://evil.example/places"}):
        assert (await local.post(ACT, data=token, headers=headers)).status_code == 403
    assert (await local.post(ACT_BY_API, json={}, headers=elsewhere)).status_code == 403
    text = await local.post(ACT_BY_API, content="{}", headers={"Content-Type": "text/plain"})
    assert text.status_code == 403, "expected a request that needs no preflight to be refused"
    assert (await local.post(ACT, data=token)).status_code == 303
    assert (await local.post(ACT_BY_API, json={})).status_code == 200
    preflight = await local.options(ACT_BY_API, headers=elsewhere)
    assert "access-control-allow-origin" not in preflight.headers


def test_a_console_for_others_needs_a_sign_in() -> None:
    _, token = make_token("ada", Role.ADMIN)
    check_access(ConsoleSettings())
    check_access(ConsoleSettings(console_host="localhost"))
    check_access(ConsoleSettings(console_host="0.0.0.0", console_tokens=(token.line,)))
    for host in ("0.0.0.0", "", "::", "192.0.2.1", "example.com"):
        with pytest.raises(CommandError, match="expected tokens or OpenID Connect"):
            check_access(ConsoleSettings(console_host=host))
    with pytest.raises(CommandError, match=r"a console on https://jobs\.example\.com"):
        check_access(ConsoleSettings(console_url="https://jobs.example.com"))


async def test_a_console_that_nobody_could_use_does_not_start(console: Console, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    console.settings = ConsoleSettings(console_tokens_file=file, console_secret_file=tmp_path / "secret")
    with pytest.raises(CommandError, match="expected a readable file"):
        build_guard(console)
    file.write_text("# nobody yet")
    with pytest.raises(CommandError, match="nobody could sign in"):
        build_guard(console)


def test_token_lines_are_checked() -> None:
    _, ada = make_token("ada", Role.ADMIN)
    assert parse_tokens(["", " # ada", f"  {ada.line}  "], "x") == (ada,)
    hashed = f"sha256:{ada.digest}"
    for line in ("ada", f"ada:root:{hashed}", f"ada:admin:{ada.digest}", f"{ada.line}0", f":admin:{hashed}"):
        with pytest.raises(CommandError, match="line 2") as refused:
            parse_tokens(["# one", line], "x")
        assert ada.digest not in str(refused.value)
    with pytest.raises(CommandError, match="got ada twice"):
        parse_tokens([ada.line, ada.line], "x")
    with pytest.raises(CommandError, match="expected a name"):
        make_token("a:b", Role.ADMIN)


def test_failures_of_many_addresses_take_bounded_memory() -> None:
    now = [0.0]
    limiter = LoginLimiter(2, lambda: now[0])
    for number in range(30_000):
        limiter.fail(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(limiter._failures) == 10_000
    for _ in range(2):
        limiter.fail("2001:db8::1")
    assert limiter.wait("2001:db8::2") == 300, "expected a network of IPv6 to be one address"
    assert limiter.wait("2001:db8:0:1::1") == 0
    now[0] = 301
    assert limiter.wait("2001:db8::2") == 0


def test_addresses_stay_within_the_console() -> None:
    for good in ("/", "/jobs?state=dead&after=a%20b#x", "/jobs/é"):
        assert safe_path(good) == good
    elsewhere = ("//x", "/\\x", "\\\\x", "/\t/x", "http:/x", "https://x", "javascript:alert(1)", "x")
    for path in (None, "", *elsewhere, "/a\nb", "/a b", "/" + "a" * 3000):
        assert safe_path(path) == "/", path
    assert is_loopback_host("127.9.9.9:80")
    assert not is_loopback_host("127.0.0.1:80:80")


async def test_half_a_body_reaches_no_action() -> None:
    called: list[str] = []

    async def action(scope: Scope, receive: Receive, send: Send) -> None:
        del receive, send
        called.append(scope["path"])

    begun: Message = {"type": "http.request", "body": b"job_ids=1&", "more_body": True}
    parts: list[Message] = [begun, {"type": "http.disconnect"}]

    async def receive() -> Message:
        return parts.pop(0)

    async def send(message: Message) -> None:
        called.append(message["type"])

    scope: Scope = {"type": "http", "method": "POST", "path": "/jobs/cancel"}
    await RequestLimits(action)({**scope, "query_string": b"", "headers": []}, receive, send)
    assert not called


# -- signatures and secrets --------------------------------------------------------------------------------


def test_a_sealed_document_comes_back_until_it_expires_for_its_purpose_alone() -> None:
    content = {"browser": "b", "é": 1}
    sealed = SIGNER.seal("form", content, NOON)
    assert SIGNER.unseal("form", sealed, BEFORE) == content
    assert SIGNER.unseal("form", sealed, NOON) is None
    assert SIGNER.unseal("another", sealed, BEFORE) is None
    text, _, signature = sealed.partition(".")
    for forged in (
        "",
        ".",
        text,
        f"{text}.",
        f".{signature}",
        f"{text}x.{signature}",
        "é.é",
        "x" * 9000,
        Signer(b"y" * 32).seal("form", content, NOON),
        f"!!!.{SIGNER.sign('form', '!!!')}",
    ):
        assert SIGNER.unseal("form", forged, BEFORE) is None


def test_a_secret_is_made_once_for_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "new" / "console.secret"
    made = read_secret(None, file)
    assert len(made) >= 32
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_secret(None, file) == made
    assert [each.name for each in file.parent.iterdir()] == ["console.secret"]
    assert read_secret("g" * 32, file) == b"g" * 32


def test_a_secret_that_others_know_or_guess_is_refused(tmp_path: Path) -> None:
    shared, short, taken = (tmp_path / name for name in ("shared", "short", "taken"))
    read_secret(None, shared)
    shared.chmod(0o644)
    short.write_text("short")
    short.chmod(0o600)
    taken.touch()
    for given, file, problem in (
        (None, shared, "readable by its owner alone, got mode 0644"),
        (None, short, "expected a secret of at least 32 bytes"),
        ("short", shared, "WARRENER_CONSOLE_SECRET: expected at least 32"),
        (None, tmp_path, "expected to read the secret"),
        (None, taken / "console.secret", "WARRENER_CONSOLE_SECRET_FILE"),
    ):
        with pytest.raises(CommandError, match=problem):
            read_secret(given, file)
