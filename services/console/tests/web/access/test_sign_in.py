"""Signing in with a token, sessions, and what is tried against both."""

import base64
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest
from services.console.tests.web.conftest import OpenBrowser

from warrener.web.access.sessions import SessionGuard
from warrener.web.access.settings import AccessSettings
from warrener.web.console import Console
from warrener_store.audit.rows import AuditOutcome

from .conftest import SITE, TOKENS, MakeGuard, bearer, csrf_of, field_of, sign_in

COOKIE = "warrener_session"


async def test_nobody_sees_a_page_before_signing_in(browser: httpx.AsyncClient) -> None:
    page = await browser.get("/places/berlin?q=1&next=//evil.example")
    assert page.status_code == 303
    assert page.headers["location"] == "/login?next=/places/berlin%3Fq%3D1%26next%3D//evil.example"
    form = await browser.get(page.headers["location"])
    assert (form.status_code, field_of(form.text, "next")) == (
        200,
        "/places/berlin?q=1&amp;next=//evil.example",
    )
    refused = await browser.post("/api/v1/places/berlin/operator", json={})
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Bearer realm="warrener"')
    fragment = await browser.get("/places/berlin", headers={"HX-Request": "true"})
    assert (fragment.status_code, fragment.headers["hx-refresh"]) == (401, "true")
    form_of_nobody = await browser.post("/places/berlin/operator", data={"why": "x"})
    assert form_of_nobody.status_code == 401


async def test_a_person_signs_in_acts_and_signs_out(browser: httpx.AsyncClient, console: Console) -> None:
    answer = await sign_in(browser, next_path="/places/berlin?q=1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/places/berlin?q=1")
    cookie = answer.headers["set-cookie"]
    assert all(word in cookie for word in ("HttpOnly", "SameSite=lax", "Path=/", "Max-Age=43200"))
    assert "Secure" not in cookie
    page = await browser.get("/places/berlin")
    assert "operator" in page.text
    done = await browser.post(
        "/places/berlin/operator", data={"csrf_token": csrf_of(page.text), "why": "x", "reason": "late"}
    )
    assert done.status_code == 303
    (record,) = await console.store.audit_records()
    assert (record.actor, record.role, record.method, record.address) == (
        "operator",
        "operator",
        "token",
        "127.0.0.1",
    )
    stolen = browser.cookies[COOKIE]
    unsent = await browser.post("/logout", data={})
    assert unsent.status_code == 403, "expected no page of another site to sign people out"
    out = await browser.post("/logout", data={"csrf_token": csrf_of(page.text)})
    assert (out.status_code, out.headers["location"]) == (303, "/login")
    again = await browser.get("/places/berlin", headers={"Cookie": f"{COOKIE}={stolen}"})
    assert again.status_code == 303, "expected the session to be over, not only its cookie deleted"


async def test_by_https_cookies_are_secure_and_the_browser_stays_there(
    open_browser: OpenBrowser, make_guard: MakeGuard, console: Console
) -> None:
    public = {"console_url": "https://jobs.example.com"}
    console.settings = console.settings.model_copy(update=public)
    browser = open_browser(SITE, make_guard(**public))
    browser.base_url = httpx.URL("https://jobs.example.com")
    answer = await sign_in(browser)
    assert "__Host-warrener_session=" in answer.headers["set-cookie"]
    assert "Secure" in answer.headers["set-cookie"]
    assert answer.headers["strict-transport-security"] == "max-age=31536000"
    assert (await browser.get("/places/berlin")).status_code == 200


async def test_a_session_gets_a_new_id_at_each_sign_in(
    open_browser: OpenBrowser, guard: SessionGuard
) -> None:
    attacker, victim = open_browser(SITE, guard), open_browser(SITE, guard)
    await sign_in(attacker, "viewer")
    planted = attacker.cookies[COOKIE]
    victim.cookies.set(COOKIE, planted, domain="127.0.0.1", path="/")
    await sign_in(victim, "admin")
    assert victim.cookies[COOKIE] != planted
    assert (await victim.get("/safe")).status_code == 200
    assert (await attacker.get("/places/berlin")).status_code == 303, "expected the planted session to end"


async def test_forged_changed_and_foreign_cookies_open_nothing(
    open_browser: OpenBrowser, guard: SessionGuard
) -> None:
    browser, fresh = open_browser(SITE, guard), open_browser(SITE, guard)
    await sign_in(browser)
    good = browser.cookies[COOKIE]
    session_id, _, signature = good.partition(".")
    forged = [
        "",
        ".",
        session_id,
        f"{session_id}.",
        f"{session_id}.{signature[:-1]}",
        f"{session_id}x.{signature}",
        f"{session_id[:-1]}A.{signature}",
        f"{session_id}.{guard.signer.sign('csrf', session_id)}",
        f"unknown.{guard.signer.sign('session', 'unknown')}",
        good + "x" * 5000,
    ]
    for cookie in forged:
        answer = await fresh.get("/places/berlin", headers={"Cookie": f"{COOKIE}={cookie}"})
        assert answer.status_code == 303, cookie
    assert (await fresh.get("/places/berlin", headers={"Cookie": f"{COOKIE}={good}"})).status_code == 200


async def test_a_session_expires_at_the_server(
    browser: httpx.AsyncClient, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sign_in(browser)
    begun = await console.now()

    async def later() -> datetime:
        return begun + timedelta(hours=12, seconds=1)

    monkeypatch.setattr(console, "now", later)
    assert (await browser.get("/places/berlin")).status_code == 303


async def test_a_form_needs_the_token_of_its_own_session(
    open_browser: OpenBrowser, guard: SessionGuard, console: Console
) -> None:
    browser, other = open_browser(SITE, guard), open_browser(SITE, guard)
    await sign_in(browser)
    await sign_in(other)
    token, foreign = csrf_of((await browser.get("/")).text), csrf_of((await other.get("/")).text)
    assert token != foreign
    for sent in (
        {},
        {"csrf_token": ""},
        {"csrf_token": foreign},
        {"csrf_token": token[:-1]},
        {"csrf_token": "é"},
    ):
        answer = await browser.post("/places/berlin/operator", data={**sent, "why": "x"})
        assert answer.status_code == 403, sent
    for headers in ({}, {"X-CSRF-Token": foreign}):
        answer = await browser.post("/api/v1/places/berlin/operator", json={}, headers=headers)
        assert answer.status_code == 403, headers
    assert not await console.store.audit_records()
    good = await browser.post("/api/v1/places/berlin/operator", json={}, headers={"X-CSRF-Token": token})
    assert good.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "https://127.0.0.1:8765"},
        {"Referer": "http://127.0.0.1.evil.example:8765/"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_another_origin_is_refused_even_with_the_token(
    browser: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    await sign_in(browser)
    token = csrf_of((await browser.get("/")).text)
    answer = await browser.post("/places/berlin/operator", data={"csrf_token": token}, headers=headers)
    assert answer.status_code == 403
    own = {"Origin": "http://127.0.0.1:8765", "Sec-Fetch-Site": "same-origin"}
    assert (
        await browser.post("/places/berlin/operator", data={"csrf_token": token}, headers=own)
    ).status_code == 303


async def test_nobody_is_signed_in_by_a_form_of_another_site(
    open_browser: OpenBrowser, guard: SessionGuard
) -> None:
    attacker, victim = open_browser(SITE, guard), open_browser(SITE, guard)
    form = await attacker.get("/login")
    fields = {"csrf_token": field_of(form.text, "csrf_token"), "name": "viewer", "token": TOKENS["viewer"][0]}
    answer = await victim.post("/login", data=fields)
    assert answer.status_code == 403
    await victim.get("/login")
    assert (await victim.post("/login", data=fields)).status_code == 403
    own = {**fields, "csrf_token": field_of((await victim.get("/login")).text, "csrf_token")}
    elsewhere = await victim.post("/login", data=own, headers={"Origin": "https://evil.example"})
    assert elsewhere.status_code == 403
    assert COOKIE not in victim.cookies


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/\t/evil.example",
        "\\\\evil.example",
        "/a\r\nSet-Cookie: x=1",
        "evil.example",
        "/" + "a" * 3000,
    ],
)
async def test_signing_in_leads_nowhere_else(browser: httpx.AsyncClient, path: str) -> None:
    form = await browser.get("/login", params={"next": path})
    assert field_of(form.text, "next") == "/"
    answer = await browser.post(
        "/login",
        data={
            "csrf_token": field_of(form.text, "csrf_token"),
            "next": path,
            "name": "viewer",
            "token": TOKENS["viewer"][0],
        },
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "x=1" not in answer.headers["set-cookie"]


async def test_failed_sign_ins_are_limited_by_address_and_by_name(
    browser: httpx.AsyncClient, guard: SessionGuard, ticks: list[float]
) -> None:
    for _ in range(3):
        assert (await sign_in(browser, "admin", secret="wrc_wrong")).status_code == 401
    blocked = await sign_in(browser, "admin")
    assert (blocked.status_code, blocked.headers["retry-after"]) == (429, "300")
    assert "try again in 5 minutes" in blocked.text
    assert (await sign_in(browser, "viewer")).status_code == 429, "expected the address to be blocked"
    ticks.append(ticks[-1] + 301)
    assert (await sign_in(browser, "admin")).status_code == 303
    for number in range(9):
        guard.limiter.fail(f"192.0.2.{number}", "admin")
    assert guard.limiter.wait("198.51.100.1", "ADMIN") > 0, "expected the name to be blocked"
    assert guard.limiter.wait("198.51.100.1", "grace") == 0


async def test_a_token_belongs_to_its_name(browser: httpx.AsyncClient) -> None:
    answer = await sign_in(browser, "admin", secret=TOKENS["viewer"][0])
    assert answer.status_code == 401
    assert "do not belong together" in answer.text


async def test_a_role_that_shrinks_counts_at_the_next_request(
    browser: httpx.AsyncClient, settings: AccessSettings
) -> None:
    await sign_in(browser, "admin")
    assert (await browser.get("/safe")).status_code == 200
    file = settings.console_tokens_file
    assert isinstance(file, Path)
    file.write_text(TOKENS["admin"][1].line.replace(":admin:", ":viewer:"))
    answer = await browser.get("/safe")
    assert answer.status_code == 403
    assert "expected the role admin" in answer.text
    file.write_text("# nobody")
    assert (await browser.get("/places/berlin")).status_code == 303, (
        "expected the session of a deleted token to end"
    )
    file.write_text("broken")
    assert (await browser.get("/places/berlin")).status_code == 303


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer wrc_unknown",
        "Bearer " + TOKENS["admin"][0][:-1],
        "Basic " + base64.b64encode(b"admin:admin").decode(),
        "Bearer " + TOKENS["admin"][1].digest,
        "Bearer " + TOKENS["admin"][1].line,
        "Bearer " + "x" * 5000,
        "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.",
    ],
    ids=[
        "no token",
        "empty",
        "unknown",
        "cut",
        "basic",
        "a digest",
        "a line of the file",
        "5,000 characters",
        "unsigned",
    ],
)
async def test_wrong_bearer_tokens_are_refused(browser: httpx.AsyncClient, header: str) -> None:
    await sign_in(browser, "admin")
    headers = {"Authorization": header}
    answer = await browser.post("/api/v1/places/berlin/viewer", json={}, headers=headers)
    assert answer.status_code == 401, "expected the session not to stand in for a wrong token"


async def test_a_program_with_a_token_needs_no_csrf_token(
    browser: httpx.AsyncClient, console: Console
) -> None:
    answer = await browser.post(
        "/api/v1/places/berlin/operator", json={"reason": "night"}, headers=bearer("operator")
    )
    assert answer.json()["sentence"] == "berlin is done by operator"
    (record,) = await console.store.audit_records()
    assert (record.outcome, record.reason) == (AuditOutcome.ACCEPTED, "night")


async def test_no_answer_can_be_framed_sniffed_or_stored(browser: httpx.AsyncClient) -> None:
    await sign_in(browser)
    for path in ("/", "/login", "/nowhere", "/api/v1/nowhere", "/health", "/safe"):
        headers = (await browser.get(path)).headers
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "script-src 'self';" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store", path


async def test_long_bodies_and_addresses_are_refused(browser: httpx.AsyncClient) -> None:
    headers = bearer("admin")
    long = await browser.post("/api/v1/places/berlin/admin", json={"why": "x" * 2_000_000}, headers=headers)
    assert long.status_code == 413

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100_000

    streamed = await browser.post("/places/berlin/admin", content=chunks(), headers=headers)
    assert streamed.status_code == 413
    assert (await browser.get(f"/places/berlin?q={'x' * 9000}", headers=headers)).status_code == 414


async def test_a_header_cannot_be_smuggled_in(browser: httpx.AsyncClient) -> None:
    await sign_in(browser)
    token = csrf_of((await browser.get("/")).text)
    evil = "a\r\nSet-Cookie: evil=1"
    answer = await browser.post(
        "/places/berlin/operator",
        data={"csrf_token": token, "reason": evil, "why": evil},
        headers={"Referer": "http://127.0.0.1:8765/x%0d%0aSet-Cookie:%20evil=1"},
    )
    assert "evil" not in answer.cookies
    assert "\r" not in answer.headers["location"]


async def test_the_name_of_a_cookie_notice_is_escaped(browser: httpx.AsyncClient) -> None:
    await sign_in(browser)
    notice = base64.urlsafe_b64encode(json.dumps([True, "<script>alert(1)</script>"]).encode()).decode()
    browser.cookies.set("warrener_notice", notice)
    page = await browser.get("/")
    assert "<script>alert(1)" not in page.text
