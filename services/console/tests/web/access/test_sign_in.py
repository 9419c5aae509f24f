"""Signing in with a token, sessions, and what is tried against both."""

import base64
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from services.console.tests.web.conftest import Browser, OpenBrowser

from warrener.web.access.sessions import SessionGuard
from warrener.web.console import Console
from warrener.web.settings import ConsoleSettings
from warrener_store.audit.rows import AuditOutcome

from .conftest import SITE, TOKENS, MakeGuard, bearer, csrf_of, field_of, recorded_actions, sign_in

COOKIE = "warrener_session"
ACT, ACT_BY_API = "/places/berlin/operator", "/api/v1/places/berlin/operator"


async def status(browser: Browser, path: str = "/places/berlin", **options: Any) -> int:
    """The status of a page; 303: it sends the reader to sign in."""
    return (await browser.get(path, **options)).status_code


def with_cookie(value: str) -> dict[str, str]:
    return {"Cookie": f"{COOKIE}={value}"}


async def test_nobody_sees_a_page_before_signing_in(browser: Browser) -> None:
    page = await browser.get("/places/berlin?q=1&next=//evil.example")
    assert page.status_code == 303
    assert page.headers["location"] == "/login?next=/places/berlin%3Fq%3D1%26next%3D//evil.example"
    form = await browser.get(page.headers["location"])
    assert (form.status_code, field_of(form.text, "next")) == (
        200,
        "/places/berlin?q=1&amp;next=//evil.example",
    )
    refused = await browser.post(ACT_BY_API, json={})
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Bearer realm="warrener"')
    fragment = await browser.get("/places/berlin", headers={"HX-Request": "true"})
    assert (fragment.status_code, fragment.headers["hx-refresh"]) == (401, "true")
    assert (await browser.post(ACT, data={"why": "x"})).status_code == 401


async def test_a_person_signs_in_acts_and_signs_out(browser: Browser, console: Console) -> None:
    answer = await sign_in(browser, next_path="/places/berlin?q=1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/places/berlin?q=1")
    words = set(answer.headers["set-cookie"].split(", ")[0].split("; "))
    assert {"HttpOnly", "SameSite=lax", "Path=/", "Max-Age=43200"} <= words
    assert "Secure" not in answer.headers["set-cookie"]
    page = await browser.get("/places/berlin")
    assert "operator" in page.text
    token = {"csrf_token": csrf_of(page.text)}
    assert (await browser.post(ACT, data={**token, "why": "x", "reason": "late"})).status_code == 303
    (record,) = await recorded_actions(console)
    who = (record.actor, record.role, record.method, record.address)
    assert who == ("operator", "operator", "token", "127.0.0.1")
    stolen = browser.cookies[COOKIE]
    unsent = await browser.post("/logout", data={})
    assert unsent.status_code == 403, "expected no page of another site to sign people out"
    out = await browser.post("/logout", data=token)
    assert (out.status_code, out.headers["location"]) == (303, "/login")
    again = await status(browser, headers=with_cookie(stolen))
    assert again == 303, "expected the session to be over, not only its cookie deleted"


async def test_by_https_cookies_are_secure_and_the_browser_stays_there(
    open_browser: OpenBrowser, make_guard: MakeGuard
) -> None:
    browser = open_browser(SITE, make_guard(console_url="https://jobs.example.com"))
    browser.base_url = httpx.URL("https://jobs.example.com")
    answer = await sign_in(browser)
    assert "__Host-warrener_session=" in answer.headers["set-cookie"]
    assert "Secure" in answer.headers["set-cookie"]
    assert answer.headers["strict-transport-security"] == "max-age=31536000"
    assert await status(browser) == 200


async def test_a_session_gets_a_new_id_at_each_sign_in(
    open_browser: OpenBrowser, guard: SessionGuard
) -> None:
    attacker, victim = open_browser(SITE, guard), open_browser(SITE, guard)
    await sign_in(attacker, "viewer")
    planted = attacker.cookies[COOKIE]
    victim.cookies.set(COOKIE, planted, domain="127.0.0.1", path="/")
    await sign_in(victim, "admin")
    assert victim.cookies[COOKIE] != planted
    assert await status(victim, "/safe") == 200
    assert await status(attacker) == 303, "expected the planted session to end"


async def test_forged_changed_and_foreign_cookies_open_nothing(
    open_browser: OpenBrowser, guard: SessionGuard
) -> None:
    browser, fresh = open_browser(SITE, guard), open_browser(SITE, guard)
    await sign_in(browser)
    good = browser.cookies[COOKIE]
    session_id, _, signature = good.partition(".")
    other = "B" if session_id.endswith("A") else "A"
    for cookie in (
        "",
        ".",
        session_id,
        f"{session_id}.",
        f"{session_id}.{signature[:-1]}",
        f"{session_id}x.{signature}",
        f"{session_id[:-1]}{other}.{signature}",
        good + "x" * 5000,
        f"{session_id}.{guard.signer.sign('csrf', session_id)}",
        f"unknown.{guard.signer.sign('session', 'unknown')}",
    ):
        assert await status(fresh, headers=with_cookie(cookie)) == 303, cookie
    assert await status(fresh, headers=with_cookie(good)) == 200


async def test_a_session_expires_at_the_server(
    browser: Browser, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sign_in(browser)
    begun = await console.now()

    async def later() -> datetime:
        return begun + timedelta(hours=12, seconds=1)

    monkeypatch.setattr(console, "now", later)
    assert await status(browser) == 303


async def test_a_form_needs_the_token_of_its_own_session(
    open_browser: OpenBrowser, guard: SessionGuard, console: Console
) -> None:
    browser, other = open_browser(SITE, guard), open_browser(SITE, guard)
    await sign_in(browser)
    await sign_in(other)
    token, foreign = csrf_of((await browser.get("/")).text), csrf_of((await other.get("/")).text)
    assert token != foreign
    sent: list[dict[str, str]] = [{}, *({"csrf_token": each} for each in ("", foreign, token[:-1], "é"))]
    for fields in sent:
        assert (await browser.post(ACT, data={**fields, "why": "x"})).status_code == 403, fields
    for headers in ({}, {"X-CSRF-Token": foreign}):
        assert (await browser.post(ACT_BY_API, json={}, headers=headers)).status_code == 403, headers
    assert not await recorded_actions(console)
    good = await browser.post(ACT_BY_API, json={}, headers={"X-CSRF-Token": token})
    assert good.status_code == 200


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Origin", "https://evil.example"),
        ("Origin", "null"),
        ("Origin", "http://127.0.0.1:9999"),
        ("Origin", "https://127.0.0.1:8765"),
        ("Referer", "http://127.0.0.1.evil.example:8765/"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ],
)
async def test_another_origin_is_refused_even_with_the_token(
    browser: Browser, header: str, value: str
) -> None:
    await sign_in(browser)
    token = {"csrf_token": csrf_of((await browser.get("/")).text)}
    assert (await browser.post(ACT, data=token, headers={header: value})).status_code == 403
    own = {"Origin": "http://127.0.0.1:8765", "Sec-Fetch-Site": "same-origin"}
    assert (await browser.post(ACT, data=token, headers=own)).status_code == 303


async def test_nobody_is_signed_in_by_a_form_of_another_site(
    open_browser: OpenBrowser, guard: SessionGuard
) -> None:
    attacker, victim = open_browser(SITE, guard), open_browser(SITE, guard)
    form = await attacker.get("/login")
    fields = {"csrf_token": field_of(form.text, "csrf_token"), "name": "viewer", "token": TOKENS["viewer"][0]}
    assert (await victim.post("/login", data=fields)).status_code == 403
    own = {**fields, "csrf_token": field_of((await victim.get("/login")).text, "csrf_token")}
    assert (await victim.post("/login", data=fields)).status_code == 403
    elsewhere = await victim.post("/login", data=own, headers={"Origin": "https://evil.example"})
    assert elsewhere.status_code == 403
    assert COOKIE not in victim.cookies


async def test_signing_in_leads_nowhere_else(browser: Browser) -> None:
    for path in ("//evil.example", "/a\r\nSet-Cookie: x=1"):
        form = await browser.get("/login", params={"next": path})
        assert field_of(form.text, "next") == "/"
        fields = {"csrf_token": field_of(form.text, "csrf_token"), "next": path}
        fields |= {"name": "viewer", "token": TOKENS["viewer"][0]}
        answer = await browser.post("/login", data=fields)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert "x=1" not in answer.headers["set-cookie"]


async def test_failed_sign_ins_are_limited_by_address(browser: Browser, ticks: list[float]) -> None:
    for _ in range(3):
        assert (await sign_in(browser, "admin", secret="wrc_wrong")).status_code == 401
    blocked = await sign_in(browser, "admin")
    assert (blocked.status_code, blocked.headers["retry-after"]) == (429, "300")
    assert "try again in 5 minutes" in blocked.text
    assert (await sign_in(browser, "viewer")).status_code == 429, "expected the address to be blocked"
    ticks.append(ticks[-1] + 301)
    foreign = await sign_in(browser, "admin", secret=TOKENS["viewer"][0])
    assert (foreign.status_code, "do not belong together" in foreign.text) == (401, True)
    assert (await sign_in(browser, "admin")).status_code == 303


async def test_a_role_that_shrinks_counts_at_the_next_request(
    browser: Browser, settings: ConsoleSettings
) -> None:
    await sign_in(browser, "admin")
    assert await status(browser, "/safe") == 200
    file = settings.console_tokens_file
    assert isinstance(file, Path)
    file.write_text(TOKENS["admin"][1].line.replace(":admin:", ":viewer:"))
    answer = await browser.get("/safe")
    assert (answer.status_code, "expected the role admin" in answer.text) == (403, True)
    for lines in ("# nobody", "broken"):
        file.write_text(lines)
        assert await status(browser) == 303, "expected the session of a deleted token to end"


ADMIN = TOKENS["admin"]
WRONG_HEADERS = {
    "no token": "Bearer",
    "empty": "Bearer ",
    "unknown": "Bearer wrc_unknown",
    "cut": f"Bearer {ADMIN[0][:-1]}",
    "basic": "Basic " + base64.b64encode(b"admin:admin").decode(),
    "a digest": f"Bearer {ADMIN[1].digest}",
    "a line of the file": f"Bearer {ADMIN[1].line}",
    "5,000 characters": "Bearer " + "x" * 5000,
    "unsigned": "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.",
}


@pytest.mark.parametrize("header", WRONG_HEADERS)
async def test_wrong_bearer_tokens_are_refused(browser: Browser, header: str) -> None:
    await sign_in(browser, "admin")
    headers = {"Authorization": WRONG_HEADERS[header]}
    answer = await browser.post("/api/v1/places/berlin/viewer", json={}, headers=headers)
    assert answer.status_code == 401, "expected the session not to stand in for a wrong token"


async def test_a_program_with_a_token_needs_no_csrf_token(browser: Browser, console: Console) -> None:
    answer = await browser.post(ACT_BY_API, json={"reason": "night"}, headers=bearer("operator"))
    assert answer.json()["sentence"] == "berlin is done by operator"
    (record,) = await recorded_actions(console)
    assert (record.outcome, record.reason) == (AuditOutcome.ACCEPTED, "night")


OF_EACH_ANSWER = {
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


async def test_no_answer_can_be_framed_sniffed_or_stored(browser: Browser) -> None:
    await sign_in(browser)
    for path in ("/", "/login", "/nowhere", "/api/v1/nowhere", "/health", "/safe"):
        headers = (await browser.get(path)).headers
        assert {"frame-ancestors 'none'", "script-src 'self'"} <= set(
            headers["content-security-policy"].split("; ")
        )
        assert {name: headers[name] for name in OF_EACH_ANSWER} == OF_EACH_ANSWER, path


async def test_long_bodies_and_addresses_are_refused(browser: Browser) -> None:
    headers = bearer("admin")
    long = await browser.post("/api/v1/places/berlin/admin", json={"why": "x" * 2_000_000}, headers=headers)

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100_000

    streamed = await browser.post("/places/berlin/admin", content=chunks(), headers=headers)
    assert (long.status_code, streamed.status_code) == (413, 413)
    assert await status(browser, f"/places/berlin?q={'x' * 9000}", headers=headers) == 414


async def test_no_header_and_no_script_comes_in_by_a_form_or_a_notice(browser: Browser) -> None:
    await sign_in(browser)
    evil = "a\r\nSet-Cookie: evil=1"
    fields = {"csrf_token": csrf_of((await browser.get("/")).text), "reason": evil, "why": evil}
    headers = {"Referer": "http://127.0.0.1:8765/x%0d%0aSet-Cookie:%20evil=1"}
    answer = await browser.post(ACT, data=fields, headers=headers)
    assert "evil" not in answer.cookies
    assert "\r" not in answer.headers["location"]
    notice = base64.urlsafe_b64encode(json.dumps([True, "<script>alert(1)</script>"]).encode()).decode()
    browser.cookies.set("warrener_notice", notice)
    assert "<script>alert(1)" not in (await browser.get("/")).text
