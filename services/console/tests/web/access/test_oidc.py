"""Signing in by OpenID Connect, with a provider that serves HTTP, and what a lying one tries."""

import hmac
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from time import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey
from services.console.tests.web.conftest import OpenBrowser

from warrener.operations.roles import Role
from warrener.web.access.oidc import values_of_claim
from warrener.web.access.sessions import SessionGuard
from warrener.web.access.settings import AccessSettings
from warrener.web.access.signing import encode_bytes
from warrener.web.console import Console

from .conftest import SITE, MakeGuard
from .provider import CLIENT_ID, CLIENT_SECRET, Claims, Provider, encode_segment

URL = "http://127.0.0.1:8765"
ROLES = {"support": Role.OPERATOR, "platform-team": Role.ADMIN}


@pytest.fixture
def guard(make_guard: MakeGuard, provider: Provider) -> SessionGuard:
    """A guard that knows the provider, and no token."""
    return make_guard(
        console_tokens_file=None,
        console_url=URL,
        console_oidc_issuer=provider.issuer,
        console_oidc_client_id=CLIENT_ID,
        console_oidc_client_secret=CLIENT_SECRET,
        console_oidc_roles=ROLES,
    )


@pytest.fixture
def browser(open_browser: OpenBrowser, guard: SessionGuard) -> httpx.AsyncClient:
    return open_browser(SITE, guard)


async def go_to_issuer(browser: httpx.AsyncClient, next_path: str = "/places/berlin") -> str:
    """Begin to sign in; the address by which the issuer sends the browser back."""
    begun = await browser.get("/login/oidc", params={"next": next_path})
    assert begun.status_code == 303, begun.text
    async with httpx.AsyncClient() as outside:
        back = await outside.get(begun.headers["location"])
    assert back.status_code == 302, back.text
    location: str = back.headers["location"]
    assert location.startswith(f"{URL}/login/oidc/callback?")
    return location.removeprefix(URL)


async def sign_in(browser: httpx.AsyncClient) -> httpx.Response:
    return await browser.get(await go_to_issuer(browser))


async def test_a_person_signs_in_at_the_issuer(
    browser: httpx.AsyncClient, provider: Provider, console: Console
) -> None:
    form = await browser.get("/login", params={"next": "/places/berlin"})
    assert f"Sign in at {urlsplit(provider.issuer).netloc}" in form.text
    assert 'name="token"' not in form.text, "expected no form for tokens where there are none"
    answer = await sign_in(browser)
    assert (answer.status_code, answer.headers["location"]) == (303, "/places/berlin")
    page = await browser.get("/places/berlin")
    assert "ada@example.com" in page.text
    token = page.text.partition('name="csrf-token" content="')[2].partition('"')[0]
    done = await browser.post("/api/v1/places/berlin/operator", json={}, headers={"X-CSRF-Token": token})
    assert done.status_code == 200
    (record,) = await console.store.audit_records()
    assert (record.actor, record.role, record.method) == ("ada@example.com", "operator", "oidc")
    assert provider.calls == ["discovery", "keys"], "expected documents of the issuer to be read once"


async def test_the_request_to_the_issuer_has_state_nonce_and_pkce(browser: httpx.AsyncClient) -> None:
    first, second = [await browser.get("/login/oidc") for _ in range(2)]
    queries = [parse_qs(urlsplit(one.headers["location"]).query) for one in (first, second)]
    for name in ("state", "nonce", "code_challenge"):
        assert queries[0][name] != queries[1][name]
    assert queries[0]["code_challenge_method"] == ["S256"]
    assert queries[0]["redirect_uri"] == [f"{URL}/login/oidc/callback"]
    assert queries[0]["tenant"] == ["1"], "expected the query of the endpoint to stay"
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie


@pytest.mark.parametrize(
    ("changes", "role"),
    [
        ({"groups": ["platform-team", "support"]}, Role.ADMIN),
        ({"groups": "support"}, Role.OPERATOR),
        ({"groups": ["others"]}, None),
        ({"groups": None}, None),
        ({"groups": {"support": True}}, None),
    ],
)
async def test_roles_follow_from_a_claim(
    browser: httpx.AsyncClient, provider: Provider, changes: Claims, role: Role | None
) -> None:
    provider.person |= changes
    answer = await sign_in(browser)
    if role is None:
        assert answer.status_code == 403
        assert "has no role here" in answer.text
        assert (await browser.get("/places/berlin")).status_code == 303
        return
    assert answer.status_code == 303
    assert (await browser.get("/safe")).status_code == (200 if role is Role.ADMIN else 403)


async def test_an_email_that_is_not_verified_is_no_name(
    browser: httpx.AsyncClient, provider: Provider
) -> None:
    provider.person["email_verified"] = False
    await sign_in(browser)
    page = await browser.get("/places/berlin")
    assert "u-1" in page.text
    assert "ada@example.com" not in page.text


def _signed(claims: Claims, key: Any, **header: Any) -> str:
    return jwt.encode({"alg": "RS256", **header}, claims, key)


def unsigned(claims: Claims, _: KeySet) -> str:
    return f"{encode_segment({'alg': 'none', 'typ': 'JWT'})}.{encode_segment(claims)}."


def signed_with_the_client_secret(claims: Claims, _: KeySet) -> str:
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(CLIENT_SECRET + "x" * 20))


def signed_with_the_public_key(claims: Claims, keys: KeySet) -> str:
    """Algorithm confusion: the public key of the issuer as a shared secret."""
    key = keys.keys[0]
    assert isinstance(key, RSAKey)
    public = key.as_pem(private=False)
    segments = f"{encode_segment({'alg': 'HS256', 'kid': 'first'})}.{encode_segment(claims)}"
    return f"{segments}.{encode_bytes(hmac.digest(public, segments.encode(), sha256))}"


def no_token(_claims: Claims, _keys: KeySet) -> str:
    return "no token"


def empty(_claims: Claims, _keys: KeySet) -> str:
    return ""


@cache
def foreign_key(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid})


def signed_by_another(claims: Claims, _: KeySet) -> str:
    return _signed(claims, foreign_key("first"), kid="first")


def signed_by_a_key_it_brings(claims: Claims, _: KeySet) -> str:
    key = foreign_key("brought")
    return _signed(claims, key, jwk=key.as_dict(private=False))


@pytest.mark.parametrize(
    "sign",
    [
        unsigned,
        signed_with_the_client_secret,
        signed_with_the_public_key,
        signed_by_another,
        signed_by_a_key_it_brings,
        no_token,
        empty,
    ],
)
async def test_a_token_that_the_issuer_has_not_signed_is_refused(
    browser: httpx.AsyncClient, provider: Provider, sign: Callable[[Claims, KeySet], str]
) -> None:
    provider.sign = sign
    await assert_refused(browser)


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "another-client"},
        {"aud": ["another-client", "a-third"]},
        {"aud": [CLIENT_ID, "another-client"]},
        {"aud": CLIENT_ID, "azp": "another-client"},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"exp": int(time()) - 3600},
        {"exp": None},
        {"iat": int(time()) + 3600},
        {"iat": None},
        {"nbf": int(time()) + 3600},
        {"nonce": "another"},
        {"nonce": None},
        {"sub": None},
    ],
)
async def test_a_token_for_another_purpose_is_refused(
    browser: httpx.AsyncClient, provider: Provider, changes: Claims
) -> None:
    def forge(claims: Claims) -> Claims:
        return {name: value for name, value in {**claims, **changes}.items() if value is not None}

    provider.forge = forge
    await assert_refused(browser)


async def assert_refused(browser: httpx.AsyncClient) -> None:
    answer = await sign_in(browser)
    assert answer.status_code == 403, answer.headers
    assert "expected an id token" in answer.text
    assert "warrener_session" not in answer.headers["set-cookie"]
    assert (await browser.get("/places/berlin")).status_code == 303


async def test_an_answer_of_the_issuer_counts_for_the_browser_that_began(
    open_browser: OpenBrowser, guard: SessionGuard
) -> None:
    attacker, victim = open_browser(SITE, guard), open_browser(SITE, guard)
    back = await go_to_issuer(attacker)
    assert (await victim.get(back)).status_code == 403, "expected no sign-in as the attacker"
    await victim.get("/login/oidc")
    assert (await victim.get(back)).status_code == 403, "expected another state"
    for change in ("&state=x", "&state="):
        assert (await attacker.get(back.partition("&state=")[0] + change)).status_code == 403
    assert (await attacker.get(back)).status_code == 303
    assert (await attacker.get(back)).status_code == 403, "expected a code to be good for one try"


async def test_answers_of_others_and_errors_of_the_issuer_are_named(
    browser: httpx.AsyncClient, provider: Provider
) -> None:
    back = await go_to_issuer(browser)
    state = parse_qs(urlsplit(back).query)["state"][0]
    callback = "/login/oidc/callback"
    refused = await browser.get(
        callback, params={"state": state, "error": "access_denied", "error_description": "<b>no</b>"}
    )
    assert refused.status_code == 403
    assert "the issuer refused the sign-in: &lt;b&gt;no" in refused.text
    back = await go_to_issuer(browser)
    mixed = back.replace("iss=", "iss=https%3A%2F%2Fevil.example&was=")
    assert "got one of another issuer" in (await browser.get(mixed)).text
    back = await go_to_issuer(browser)
    provider.codes.clear()
    assert "the code is over" in (await browser.get(back)).text


async def test_a_key_that_the_issuer_has_made_since_is_read(
    browser: httpx.AsyncClient, provider: Provider, ticks: list[float]
) -> None:
    assert (await sign_in(browser)).status_code == 303
    provider.rotate()
    assert (await sign_in(browser)).status_code == 403, "expected keys to be read at most twice a minute"
    ticks.append(ticks[-1] + 31)
    assert (await sign_in(browser)).status_code == 303
    assert provider.calls.count("keys") == 2


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({"issuer": "https://evil.example"}, "expected the issuer http://127.0.0.1"),
        (
            {"authorization_endpoint": "http://evil.example/authorize"},
            "expected an https URL as authorization_endpoint",
        ),
        (
            {"authorization_endpoint": "javascript:alert(1)"},
            "expected an https URL as authorization_endpoint",
        ),
        ({"authorization_endpoint": None}, "expected an https URL as authorization_endpoint"),
    ],
)
async def test_a_wrong_document_of_the_issuer_is_named(
    browser: httpx.AsyncClient, provider: Provider, metadata: Claims, sentence: str
) -> None:
    provider.metadata = metadata
    answer = await browser.get("/login/oidc")
    assert answer.status_code == 502
    assert sentence in answer.text


async def test_an_issuer_that_is_away_is_named(open_browser: OpenBrowser, make_guard: MakeGuard) -> None:
    guard = make_guard(
        console_url=URL,
        console_oidc_issuer="http://127.0.0.1:1",
        console_oidc_client_id=CLIENT_ID,
        console_oidc_default_role="viewer",
    )
    answer = await open_browser(SITE, guard).get("/login/oidc")
    assert answer.status_code == 502
    assert "expected an answer of http://127.0.0.1:1/.well-known/openid-configuration" in answer.text
    assert 'name="token"' in answer.text, "expected tokens to work all the same"


async def test_a_session_ends_when_its_issuer_is_no_longer_configured(
    open_browser: OpenBrowser, browser: httpx.AsyncClient, make_guard: MakeGuard
) -> None:
    await sign_in(browser)
    cookie = browser.cookies["warrener_session"]
    later = open_browser(SITE, make_guard())
    answer = await later.get("/places/berlin", headers={"Cookie": f"warrener_session={cookie}"})
    assert answer.status_code == 303


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"console_oidc_issuer": "http://login.example.com"}, "an https URL"),
        ({"console_oidc_issuer": "https://login.example.com"}, "console_oidc_client_id"),
        ({"console_oidc_client_id": "x", "console_url": None}, "console_url"),
        ({"console_oidc_client_id": "x", "console_oidc_roles": {}}, "nobody has a role"),
        ({"console_oidc_client_id": "x", "console_oidc_roles": {"a": "root"}}, "viewer"),
        ({"console_oidc_client_id": "x", "console_oidc_scopes": ["email"]}, "openid"),
        ({"console_url": "https://jobs.example.com/sub"}, "a URL without a path"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], sentence: str) -> None:
    complete = {
        "console_oidc_issuer": "https://login.example.com",
        "console_url": "https://jobs.example.com",
        "console_oidc_roles": ROLES,
    }
    with pytest.raises(ValueError, match=sentence):
        AccessSettings.model_validate({**complete, **settings})


def test_a_claim_is_found_by_its_path() -> None:
    claims = {
        "realm_access": {"roles": ["a", 7, "b"]},
        "https://example.com/roles": "c",
        "deep": {"er": "text"},
    }
    assert values_of_claim(claims, "realm_access.roles") == ["a", "b"]
    assert values_of_claim(claims, "https://example.com/roles") == ["c"]
    assert values_of_claim(claims, "deep.er") == ["text"]
    for path in ("deep", "deep.er.more", "nothing", ""):
        assert values_of_claim(claims, path) == []
