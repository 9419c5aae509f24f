"""A console for this machine alone, tokens as lines, and limits: what is tried against them."""

from pathlib import Path

import httpx
import pytest
from services.console.tests.web.conftest import OpenBrowser
from starlette.types import Message, Receive, Scope, Send

from warrener.errors import CommandError
from warrener.operations.roles import Role
from warrener.web.access.guard import OpenGuard
from warrener.web.access.middleware import RequestLimits
from warrener.web.access.origins import is_loopback_host, safe_path
from warrener.web.access.rate_limit import LoginLimiter
from warrener.web.access.settings import AccessSettings
from warrener.web.access.setup import build_guard, check_access
from warrener.web.access.tokens import make_token, parse_tokens
from warrener.web.console import Console

from .conftest import SITE, csrf_of


@pytest.fixture
def local(open_browser: OpenBrowser) -> httpx.AsyncClient:
    """A browser on a console without sign-in."""
    return open_browser(SITE, OpenGuard())


async def test_a_page_whose_name_was_bound_to_this_machine_sees_nothing(local: httpx.AsyncClient) -> None:
    for host in ("127.0.0.1:8765", "localhost:8765", "[::1]:8765", "localhost", "warrener.localhost:1"):
        assert (await local.get("/", headers={"Host": host})).status_code == 200, host
    for host in (
        "evil.example:8765",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "192.0.2.1:8765",
        "",
    ):
        answer = await local.get("/", headers={"Host": host})
        assert answer.status_code == 403, host
        assert "expected an address of this machine" in answer.text
    assert (await local.get("/", headers={"X-Forwarded-For": "192.0.2.1"})).status_code == 403


async def test_a_page_of_another_site_cannot_act_on_this_machine(
    local: httpx.AsyncClient, open_browser: OpenBrowser
) -> None:
    token = csrf_of((await local.get("/")).text)
    assert csrf_of((await open_browser(SITE, OpenGuard()).get("/")).text) != token
    for data in ({}, {"csrf_token": "open"}):
        assert (await local.post("/places/berlin/admin", data=data)).status_code == 403
    elsewhere = {"Origin": "https://evil.example"}
    form = await local.post("/places/berlin/admin", data={"csrf_token": token}, headers=elsewhere)
    assert form.status_code == 403
    assert (await local.post("/api/v1/places/berlin/admin", json={}, headers=elsewhere)).status_code == 403
    plain = {"Content-Type": "text/plain"}
    text = await local.post("/api/v1/places/berlin/admin", content="{}", headers=plain)
    assert text.status_code == 403, "expected a request that needs no preflight to be refused"
    assert (await local.post("/places/berlin/admin", data={"csrf_token": token})).status_code == 303
    assert (await local.post("/api/v1/places/berlin/admin", json={})).status_code == 200
    preflight = await local.options("/api/v1/places/berlin/admin", headers=elsewhere)
    assert "access-control-allow-origin" not in preflight.headers


def test_a_console_for_others_needs_a_sign_in() -> None:
    _, token = make_token("ada", Role.ADMIN)
    check_access(AccessSettings(), "127.0.0.1")
    check_access(AccessSettings(), "localhost")
    check_access(AccessSettings(console_tokens=(token.line,)), "0.0.0.0")
    for host in ("0.0.0.0", "", "::", "192.0.2.1", "example.com"):
        with pytest.raises(CommandError, match="expected tokens or OpenID Connect"):
            check_access(AccessSettings(), host)
    with pytest.raises(CommandError, match=r"a console on https://jobs\.example\.com"):
        check_access(AccessSettings(console_url="https://jobs.example.com"), "127.0.0.1")


async def test_a_console_that_nobody_could_use_does_not_start(console: Console, tmp_path: Path) -> None:
    file, secret = tmp_path / "tokens", tmp_path / "secret"
    settings = AccessSettings(console_tokens_file=file, console_secret_file=secret)
    with pytest.raises(CommandError, match="expected a readable file"):
        build_guard(console, settings, "127.0.0.1")
    file.write_text("# nobody yet")
    with pytest.raises(CommandError, match="nobody could sign in"):
        build_guard(console, settings, "127.0.0.1")


def test_token_lines_are_checked() -> None:
    _, ada = make_token("ada", Role.ADMIN)
    assert parse_tokens(["", " # ada", f"  {ada.line}  "], "x") == (ada,)
    digest = ada.digest
    for line in (
        "ada",
        f"ada:root:sha256:{digest}",
        f"ada:admin:{digest}",
        f"ada:admin:sha256:{digest}0",
        f":admin:sha256:{digest}",
    ):
        with pytest.raises(CommandError, match="line 2") as refused:
            parse_tokens(["# one", line], "x")
        assert digest not in str(refused.value)
    with pytest.raises(CommandError, match="got ada twice"):
        parse_tokens([ada.line, ada.line], "x")
    with pytest.raises(CommandError, match="expected a name"):
        make_token("a:b", Role.ADMIN)


def test_failures_of_many_addresses_take_bounded_memory() -> None:
    now = [0.0]
    limiter = LoginLimiter(2, lambda: now[0])
    for number in range(30_000):
        limiter.fail(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", f"name-{number}")
    assert len(limiter._failures) == 10_000
    for _ in range(2):
        limiter.fail("2001:db8::1", "ada")
    assert limiter.wait("2001:db8::2", "grace") == 300, "expected a network of IPv6 to be one address"
    assert limiter.wait("2001:db8:0:1::1", "grace") == 0
    now[0] = 301
    assert limiter.wait("2001:db8::2", "ada") == 0


def test_addresses_stay_within_the_console() -> None:
    for good in ("/", "/jobs?state=dead&after=a%20b#x", "/jobs/é"):
        assert safe_path(good) == good
    for path in (None, "", "//x", "/\\x", "http:/x", "x", "/a\nb", "/a b"):
        assert safe_path(path) == "/"
    assert is_loopback_host("127.9.9.9:80")
    assert not is_loopback_host("127.0.0.1:80:80")


async def test_half_a_body_reaches_no_action() -> None:
    called: list[str] = []

    async def action(scope: Scope, receive: Receive, send: Send) -> None:
        del receive, send
        called.append(scope["path"])

    parts: list[Message] = [
        {"type": "http.request", "body": b"job_ids=1&", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return parts.pop(0)

    async def send(message: Message) -> None:
        called.append(message["type"])

    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": "/jobs/cancel",
        "query_string": b"",
        "headers": [],
    }
    await RequestLimits(action)(scope, receive, send)
    assert not called
