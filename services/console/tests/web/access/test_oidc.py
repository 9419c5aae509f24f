"""Signing in by OpenID Connect, with a provider that serves HTTP, and what a lying one tries."""

import hmac
from functools import cache
from hashlib import sha256
from time import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey
from services.console.tests.web.conftest import Browser, OpenBrowser
from tests.security.attacks import attack

from warrener.operations.roles import Role
from warrener.web.access.oidc import values_of_claim
from warrener.web.access.sessions import SessionGuard
from warrener.web.access.signing import encode_bytes
from warrener.web.console import Console
from warrener.web.settings import ConsoleSettings

from .conftest import SITE, MakeGuard, csrf_of, recorded_actions
from .provider import CLIENT_ID, CLIENT_SECRET, Claims, Provider, SignToken, encode_segment, key_of

URL = "http://127.0.0.1:8765"
ROLES = {"support": Role.OPERATOR, "platform-team": Role.ADMIN}
NOW = int(time())


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


async def go_to_issuer(browser: Browser, next_path: str = "/places/berlin") -> str:
    """Begin to sign in; the address by which the issuer sends the browser back."""
    begun = await browser.get("/login/oidc", params={"next": next_path})
    assert begun.status_code == 303, begun.text
    async with httpx.AsyncClient() as outside:
        back = await outside.get(begun.headers["location"])
    assert back.status_code == 302, back.text
    location: str = back.headers["location"]
    assert location.startswith(f"{URL}/login/oidc/callback?")
    return location.removeprefix(URL)


async def sign_in(browser: Browser) -> httpx.Response:
    return await browser.get(await go_to_issuer(browser))


async def test_a_person_signs_in_at_the_issuer(
    browser: Browser, provider: Provider, console: Console
) -> None:
    form = await browser.get("/login", params={"next": "/places/berlin"})
    assert f"Sign in at {urlsplit(provider.issuer).netloc}" in form.text
    assert 'name="token"' not in form.text, "expected no form for tokens where there are none"
    answer = await sign_in(browser)
    assert (answer.status_code, answer.headers["location"]) == (303, "/places/berlin")
    page = await browser.get("/places/berlin")
    assert "ada@example.com" in page.text
    headers = {"X-CSRF-Token": csrf_of(page.text)}
    done = await browser.post("/api/v1/places/berlin/operator", json={}, headers=headers)
    assert done.status_code == 200
    (record,) = await recorded_actions(console)
    assert (record.actor, record.role, record.method) == ("ada@example.com", "operator", "oidc")
    assert provider.calls == ["discovery", "keys"], "expected documents of the issuer to be read once"


async def test_the_request_to_the_issuer_has_state_nonce_and_pkce(browser: Browser) -> None:
    first, second = [await browser.get("/login/oidc") for _ in range(2)]
    queries = [parse_qs(urlsplit(one.headers["location"]).query) for one in (first, second)]
    for name in ("state", "nonce", "code_challenge"):
        assert queries[0][name] != queries[1][name]
    assert queries[0]["code_challenge_method"] == ["S256"]
    assert queries[0]["redirect_uri"] == [f"{URL}/login/oidc/callback"]
    assert queries[0]["tenant"] == ["1"], "expected the query of the endpoint to stay"
    assert {"HttpOnly", "SameSite=lax"} <= set(first.headers["set-cookie"].split("; "))


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["platform-team", "support"], Role.ADMIN),
        ("support", Role.OPERATOR),
        (["others"], None),
        (None, None),
        ({"support": True}, None),
    ],
)
async def test_roles_follow_from_a_claim_and_an_email_is_a_name_once_it_is_verified(
    browser: Browser, provider: Provider, groups: Any, role: Role | None
) -> None:
    provider.person |= {"groups": groups, "email_verified": False}
    answer = await sign_in(browser)
    if role is None:
        assert (answer.status_code, "has no role here" in answer.text) == (403, True)
        assert (await browser.get("/places/berlin")).status_code == 303
    else:
        assert answer.status_code == 303
        assert (await browser.get("/safe")).status_code == (200 if role is Role.ADMIN else 403)
        page = await browser.get("/places/berlin")
        assert ("u-1" in page.text, "ada@example.com" in page.text) == (True, False)


@cache
def foreign_key(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid})


def signed_with_the_public_key(claims: Claims, keys: KeySet) -> str:
    """Algorithm confusion: the public key of the issuer as a shared secret."""
    key = keys.keys[0]
    assert isinstance(key, RSAKey)
    segments = f"{encode_segment({'alg': 'HS256', 'kid': 'first'})}.{encode_segment(claims)}"
    return f"{segments}.{encode_bytes(hmac.digest(key.as_pem(private=False), segments.encode(), sha256))}"


def signed_by_a_key_it_brings(claims: Claims, _: KeySet) -> str:
    key = foreign_key("brought")
    return jwt.encode({"alg": "RS256", "jwk": key.as_dict(private=False)}, claims, key)


FORGERIES: dict[str, SignToken] = {
    "unsigned": lambda claims, _: (
        f"{encode_segment({'alg': 'none', 'typ': 'JWT'})}.{encode_segment(claims)}."
    ),
    "signed with the client secret": lambda claims, _: jwt.encode(
        {"alg": "HS256"}, claims, OctKey.import_key(CLIENT_SECRET + "x" * 20)
    ),
    "signed with the public key": signed_with_the_public_key,
    "signed by another": lambda claims, _: jwt.encode(
        {"alg": "RS256", "kid": "first"}, claims, foreign_key("first")
    ),
    "signed by a key it brings": signed_by_a_key_it_brings,
    "no token": lambda _claims, _keys: "no token",
    "empty": lambda _claims, _keys: "",
}


OTHER_CLAIMS: dict[str, Claims] = {
    "another audience": {"aud": "another-client"},
    "other audiences": {"aud": ["another-client", "a-third"]},
    "a shared audience": {"aud": [CLIENT_ID, "another-client"]},
    "another party": {"aud": CLIENT_ID, "azp": "another-client"},
    "another issuer": {"iss": "https://evil.example"},
    "no issuer": {"iss": None},
    "expired": {"exp": NOW - 3600},
    "without an end": {"exp": None},
    "of the future": {"iat": NOW + 3600},
    "without a beginning": {"iat": None},
    "not valid yet": {"nbf": NOW + 3600},
    "another nonce": {"nonce": "another"},
    "no nonce": {"nonce": None},
    "of nobody": {"sub": None},
}


@pytest.mark.parametrize("lie", [*FORGERIES, *OTHER_CLAIMS])
async def test_a_token_that_is_forged_or_for_another_purpose_is_refused(
    browser: Browser, provider: Provider, lie: str
) -> None:
    provider.sign, provider.changes = FORGERIES.get(lie), OTHER_CLAIMS.get(lie, {})
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
    browser: Browser, provider: Provider
) -> None:
    state = parse_qs(urlsplit(await go_to_issuer(browser)).query)["state"][0]
    denied = {"state": state, "error": "access_denied", "error_description": "<b>no</b>"}
    refused = await browser.get("/login/oidc/callback", params=denied)
    assert refused.status_code == 403
    assert "the issuer refused the sign-in: &lt;b&gt;no" in refused.text
    mixed = (await go_to_issuer(browser)).replace("iss=", "iss=https%3A%2F%2Fevil.example&was=")
    assert "got one of another issuer" in (await browser.get(mixed)).text
    back = await go_to_issuer(browser)
    provider.codes.clear()
    assert "the code is over" in (await browser.get(back)).text


async def test_a_key_that_the_issuer_has_made_since_is_read(
    browser: Browser, provider: Provider, ticks: list[float]
) -> None:
    assert (await sign_in(browser)).status_code == 303
    provider.keys = KeySet([key_of("second")])
    assert (await sign_in(browser)).status_code == 403, "expected keys to be read at most twice a minute"
    ticks.append(ticks[-1] + 31)
    assert (await sign_in(browser)).status_code == 303
    assert provider.calls.count("keys") == 2


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("issuer", "https://evil.example", "expected the issuer http://127.0.0.1"),
        *(
            ("authorization_endpoint", value, "expected an https URL as authorization_endpoint")
            for value in ("http://evil.example/authorize", "javascript:alert(1)", None)
        ),
    ],
)
async def test_a_wrong_document_of_the_issuer_is_named(
    browser: Browser, provider: Provider, field: str, value: str | None, sentence: str
) -> None:
    provider.metadata = {field: value}
    answer = await browser.get("/login/oidc")
    assert (answer.status_code, sentence in answer.text) == (502, True)


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


@attack(
    "the outage of an issuer",
    "locks everybody out who tries to sign in meanwhile, and tokens at their address",
    refused="an outage is nobody's failure",
)
async def test_an_outage_of_the_issuer_counts_as_nobodys_failure(
    browser: Browser, provider: Provider
) -> None:
    provider.status = 503
    for _ in range(5):
        answer = await sign_in(browser)
        assert (answer.status_code, "got status 503" in answer.text) == (403, True)
    provider.status = None
    assert (await sign_in(browser)).status_code == 303


async def test_a_session_ends_when_its_issuer_is_no_longer_configured(
    open_browser: OpenBrowser, browser: Browser, make_guard: MakeGuard
) -> None:
    await sign_in(browser)
    cookie = {"Cookie": f"warrener_session={browser.cookies['warrener_session']}"}
    later = open_browser(SITE, make_guard())
    assert (await later.get("/places/berlin", headers=cookie)).status_code == 303


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
        ConsoleSettings.model_validate({**complete, **settings})


def test_a_claim_is_found_by_its_path() -> None:
    url = "https://example.com/roles"
    claims = {"realm_access": {"roles": ["a", 7, "b"]}, url: "c", "deep": {"er": "text"}}
    paths = ("realm_access.roles", url, "deep.er", "deep", "deep.er.more", "nothing", "")
    found = [values_of_claim(claims, path) for path in paths]
    assert found == [["a", "b"], ["c"], ["text"], [], [], [], []]
