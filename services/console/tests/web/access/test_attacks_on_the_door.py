"""Attacks on the console's own door: each story is one thing that a stranger tries."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from services.console.tests.web.conftest import Browser, OpenBrowser
from tests.security.attacks import attack

from warrener.operations.roles import Role
from warrener.web.access.sessions import SessionGuard
from warrener.web.app import create_app
from warrener.web.console import Console
from warrener_store.audit.rows import AuditOutcome

from .conftest import SITE, TOKENS, MakeGuard, bearer, sign_in
from .provider import CLIENT_ID, Provider

URL = "http://127.0.0.1:8765"
WRONG = {"Authorization": "Bearer wrc_nobody_has_this_token"}


async def strangers(count: int, console: Console, guard: SessionGuard) -> AsyncGenerator[Browser]:
    """Browsers at so many addresses, one after the other."""
    app = create_app(console, SITE, guard)
    for number in range(count):
        transport = httpx.ASGITransport(app, client=(f"192.0.2.{number}", 1))
        async with httpx.AsyncClient(transport=transport, base_url=URL) as opened:
            yield opened


@asynccontextmanager
async def browser_at(address: str, console: Console, guard: SessionGuard) -> AsyncGenerator[Browser]:
    """A browser whose requests come from this address."""
    transport = httpx.ASGITransport(create_app(console, SITE, guard), client=(address, 1))
    async with httpx.AsyncClient(transport=transport, base_url=URL) as opened:
        yield opened


@attack(
    "a stranger at the console",
    "fails 36 times under the name of another, to lock them out",
    refused="no number of failures blocks a name",
)
async def test_a_stranger_locks_nobody_out_by_failing_under_their_name(
    console: Console, guard: SessionGuard
) -> None:
    async for stranger in strangers(36, console, guard):
        assert (await sign_in(stranger, "admin", secret="wrc_wrong")).status_code == 401
    async with browser_at("198.51.100.1", console, guard) as ada:
        assert (await sign_in(ada, "admin")).status_code == 303


@attack("a stranger at the console", "guesses bearer tokens", refused="the limit of sign-ins of an address")
async def test_guessed_bearer_tokens_block_their_address(
    browser: Browser, console: Console, guard: SessionGuard
) -> None:
    for number in range(3):
        headers = {"Authorization": f"Bearer wrc_guess_{number}"}
        assert (await browser.get("/places/berlin", headers=headers)).status_code == 401
    blocked = await browser.get("/places/berlin", headers={"Authorization": "Bearer wrc_guess_4"})
    assert (blocked.status_code, blocked.headers["retry-after"]) == (429, "300")
    assert (await sign_in(browser, "admin")).status_code == 429, "expected one limit for form and header"
    async with browser_at("198.51.100.1", console, guard) as elsewhere:
        assert (await elsewhere.get("/places/berlin", headers=WRONG)).status_code == 401


@attack(
    "a stranger behind the address of a program",
    "sends wrong bearer tokens, to lock its right one out",
    refused="a right token is found before failures are counted",
)
async def test_wrong_tokens_of_a_neighbour_lock_no_right_token_out(browser: Browser) -> None:
    for number in range(4):
        await browser.get("/places/berlin", headers={"Authorization": f"Bearer wrc_guess_{number}"})
    assert (await browser.get("/places/berlin", headers=bearer("admin"))).status_code == 200


@attack(
    "a program with an old token",
    "repeats it, and blocks others at its address",
    refused="a repeat is no other guess",
)
async def test_a_program_with_an_old_token_blocks_nobody_at_its_address(browser: Browser) -> None:
    for _ in range(20):
        assert (await browser.get("/places/berlin", headers=WRONG)).status_code == 401
    assert (await browser.get("/places/berlin", headers=bearer("viewer"))).status_code == 200


@attack(
    "a stranger at the console",
    "tries to sign in unseen",
    refused="sign-ins and failures stand in the audit log",
)
async def test_sign_ins_and_failures_stand_in_the_audit_log(browser: Browser, console: Console) -> None:
    await sign_in(browser, "admin")
    await sign_in(browser, "admin", secret="wrc_wrong")
    await browser.get("/places/berlin", headers=WRONG)
    records = await console.store.audit_records()
    found = [(one.outcome, one.actor, one.role, one.address, one.action) for one in reversed(records)]
    assert found == [
        (AuditOutcome.ACCEPTED, "admin", "admin", "127.0.0.1", "console.sign_in"),
        (AuditOutcome.REFUSED, "admin", "", "127.0.0.1", "console.sign_in"),
        (AuditOutcome.REFUSED, "", "", "127.0.0.1", "console.sign_in"),
    ]


@attack(
    "strangers at many addresses",
    "fill the audit log with failures",
    refused="a hundred are recorded in five minutes, the log has all",
)
async def test_the_audit_log_takes_a_hundred_failures_of_a_flood(
    console: Console, guard: SessionGuard
) -> None:
    async for stranger in strangers(120, console, guard):
        assert (await stranger.get("/places/berlin", headers=WRONG)).status_code == 401
    assert len(await console.store.audit_records(limit=1000)) == 100


@attack(
    "strangers at many addresses",
    "fail steadily, so that the failure that counts is not recorded",
    refused="each five minutes have a hundred records of their own",
)
async def test_a_steady_flood_does_not_silence_the_audit_log(
    console: Console, guard: SessionGuard, ticks: list[float]
) -> None:
    async for stranger in strangers(240, console, guard):
        ticks.append(ticks[-1] + 2)
        await stranger.get("/places/berlin", headers=WRONG)
    assert len(await console.store.audit_records(limit=1000)) == 190, "100, and 90 since the first ones ended"


@attack(
    "a person at the console",
    "enters a token in the place of the name",
    refused="a token is written into no log",
)
async def test_a_token_that_is_entered_as_a_name_is_not_recorded(browser: Browser, console: Console) -> None:
    secret, _ = TOKENS["admin"]
    assert (await sign_in(browser, secret, secret="wrc_wrong")).status_code == 401
    (record,) = await console.store.audit_records()
    assert (record.outcome, record.actor) == (AuditOutcome.REFUSED, "")


@attack(
    "a stranger at the console",
    "signs in with a name of NUL, ESC and marks of direction",
    refused="recorded as text",
)
async def test_a_name_of_control_characters_is_recorded_as_text(browser: Browser, console: Console) -> None:
    form = (await browser.get("/login")).text
    token = re.search('name="csrf_token" value="([^"]+)"', form)
    assert token is not None
    fields = {"csrf_token": token[1], "name": "\x00\x1b[2J\u202eadmin", "token": "x"}
    assert (await browser.post("/login", data=fields)).status_code == 401
    (record,) = await console.store.audit_records()
    assert record.actor == r"\x00\x1b[2J\u202eadmin"


@attack(
    "a stranger at the console",
    "guesses a short token that an admin has written into the file",
    refused="tokens of fewer than 20 characters open nothing",
)
@pytest.mark.parametrize("secret", ["short", "warrener", "ada", "password"])
async def test_a_short_token_opens_nothing_even_with_a_line_of_its_own(
    open_browser: OpenBrowser, make_guard: MakeGuard, secret: str
) -> None:
    line = f"ada:admin:sha256:{sha256(secret.encode()).hexdigest()}"
    browser = open_browser(SITE, make_guard(console_tokens=[line]))
    headers = {"Authorization": f"Bearer {secret}"}
    assert (await browser.get("/places/berlin", headers=headers)).status_code == 401


@attack("a stranger at the console", "uses the default token of the compose file", refused="there is none")
def test_the_compose_file_has_no_token_that_everybody_knows() -> None:
    text = (Path(__file__).parents[5] / "docker-compose.yml").read_text(encoding="utf-8")
    assert "sha256:" not in text
    assert "${WARRENER_CONSOLE_TOKENS:?" in text


# -- OpenID Connect ------------------------------------------------------------------------------------------


async def enter(browser: Browser) -> httpx.Response:
    return await browser.get(await _back(browser))


async def _back(browser: Browser) -> str:
    begun = await browser.get("/login/oidc")
    async with httpx.AsyncClient() as outside:
        back = await outside.get(begun.headers["location"])
    location: str = back.headers["location"]
    return location.removeprefix(URL)


@pytest.fixture
def by_email(open_browser: OpenBrowser, make_guard: MakeGuard, provider: Provider) -> Browser:
    """A browser at a console whose roles follow from emails."""
    guard = make_guard(
        console_tokens_file=None,
        console_url=URL,
        console_oidc_issuer=provider.issuer,
        console_oidc_client_id=CLIENT_ID,
        console_oidc_client_secret="a secret of the client: 100 %",
        console_oidc_role_claim="email",
        console_oidc_roles={"ada@example.com": Role.ADMIN},
    )
    return open_browser(SITE, guard)


@attack(
    "a person at the issuer", "enters the email of an admin without owning it", refused="`email_verified`"
)
@pytest.mark.parametrize("verified", [False, None, "false", 1, []])
async def test_an_email_that_nobody_has_verified_gives_no_role(
    by_email: Browser, provider: Provider, verified: object
) -> None:
    provider.metadata = {"claims_supported": ["sub", "email", "email_verified"]}
    provider.person["email_verified"] = verified
    if verified is None:
        del provider.person["email_verified"]
    answer = await enter(by_email)
    assert (answer.status_code, "has no role here" in answer.text) == (403, True)


async def test_a_verified_email_gives_its_role(by_email: Browser, console: Console) -> None:
    assert (await enter(by_email)).status_code == 303
    (record,) = await console.store.audit_records()
    assert (record.actor, record.method, record.outcome) == ("ada@example.com", "oidc", AuditOutcome.ACCEPTED)


@attack("another issuer", "mixes its answer into a sign-in", refused="the parameter `iss` (RFC 9207)")
async def test_an_issuer_that_names_itself_in_answers_is_taken_at_its_word(
    by_email: Browser, provider: Provider, console: Console
) -> None:
    provider.metadata = {"authorization_response_iss_parameter_supported": True}
    for lie in ("was", "iss=https%3A%2F%2Fevil.example&was"):
        refused = await by_email.get((await _back(by_email)).replace("iss=", f"{lie}="))
        assert (refused.status_code, "expected an answer of" in refused.text) == (403, True)
    assert (await enter(by_email)).status_code == 303
    records = await console.store.audit_records()
    assert [one.outcome for one in records] == [AuditOutcome.ACCEPTED, *[AuditOutcome.REFUSED] * 2]


@attack(
    "a page of another site",
    "sends a browser to the callback of OpenID Connect, to lock its address out",
    refused="an answer to no sign-in of this browser is no failure",
)
async def test_callbacks_that_a_foreign_page_sends_lock_nobody_out(
    by_email: Browser, console: Console
) -> None:
    for _ in range(12):
        assert (await by_email.get("/login/oidc/callback?state=x&code=y")).status_code == 403
        await by_email.get("/login/oidc")
        assert (await by_email.get("/login/oidc/callback?state=x&code=y")).status_code == 403
    assert (await enter(by_email)).status_code == 303
    outcomes = [one.outcome for one in await console.store.audit_records()]
    assert outcomes == [AuditOutcome.ACCEPTED, AuditOutcome.REFUSED], "expected one record of the callbacks"


@attack(
    "a person without a role here",
    "signs in at the issuer again and again",
    refused="the limit of sign-ins of an address, before the issuer is called",
)
async def test_failed_sign_ins_at_the_issuer_are_limited(by_email: Browser, provider: Provider) -> None:
    provider.person["email_verified"] = False
    for _ in range(3):
        assert (await enter(by_email)).status_code == 403
    blocked = await enter(by_email)
    assert (blocked.status_code, blocked.headers["retry-after"]) == (429, "300")
    assert provider.codes, "expected the issuer not to be called"
