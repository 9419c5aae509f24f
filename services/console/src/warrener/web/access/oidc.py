"""Sign-in by OpenID Connect: authorization code with PKCE, state and nonce. Only the configured issuer
counts."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from secrets import token_urlsafe
from typing import Any, NamedTuple, cast
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from warrener.operations.roles import Role
from warrener.web.access.origins import is_loopback_host
from warrener.web.access.signing import encode_bytes
from warrener.web.settings import ConsoleSettings

CALLBACK = "/login/oidc/callback"
_ALGORITHMS = [
    *(f"{family}{bits}" for family in ("RS", "PS", "ES") for bits in (256, 384, 512)),
    "EdDSA",
    "Ed25519",
]
"""Signatures by keys of the issuer. Neither `none` nor a shared secret is one of them."""
_TIMEOUT = 10.0  # seconds of one request to the issuer
_LEEWAY = 60  # seconds by which clocks may differ
_DISCOVERY_LIFETIME = 3600.0  # seconds
_KEYS_PAUSE = 30.0  # seconds between two reads of the keys
_MAX_ANSWER = 1024 * 1024  # bytes


class SignInFailed(Exception):
    """Nobody was signed in; the text is a sentence for the person."""


class IssuerUnusable(SignInFailed):
    """The issuer cannot be reached, or answers what no person has caused."""


class SignedIn(NamedTuple):
    """A person who has signed in. `credential`: by which a session is still good or not."""

    name: str
    role: Role
    method: str
    credential: str


class OpenIdProvider:
    """The configured issuer. Its documents are read when they are needed, and again after an hour."""

    def __init__(self, settings: ConsoleSettings, clock: Callable[[], float]) -> None:
        assert settings.console_oidc_issuer is not None
        assert settings.console_oidc_client_id is not None
        self.issuer = settings.console_oidc_issuer
        self._client_id = settings.console_oidc_client_id
        self._settings, self._clock = settings, clock
        self._redirect_uri = f"{settings.console_url}{CALLBACK}"
        # A connection that is kept may be closed by the issuer while a request is on its way.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._http = httpx.AsyncClient(timeout=_TIMEOUT, follow_redirects=False, limits=limits)
        self._metadata: dict[str, Any] = {}
        self._metadata_at = float("-inf")
        self._keys: KeySet | None = None
        self._keys_at = float("-inf")

    async def close(self) -> None:
        await self._http.aclose()

    async def start(self) -> tuple[str, dict[str, str]]:
        """Begin a sign-in at this URL; what the browser brings back is compared with the texts. Raises
        IssuerUnusable."""
        metadata = await self._discover()
        state, nonce, verifier = token_urlsafe(32), token_urlsafe(32), token_urlsafe(48)
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(self._settings.console_oidc_scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": encode_bytes(sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        endpoint = self._endpoint(metadata, "authorization_endpoint")
        sign = "&" if urlsplit(endpoint).query else "?"
        begun = {"state": state, "nonce": nonce, "verifier": verifier}
        return f"{endpoint}{sign}{urlencode(query)}", begun

    async def finish(self, query: Mapping[str, str], nonce: str, verifier: str) -> SignedIn:
        """End a sign-in whose state was compared: trade the code for an id token, and check the token."""
        metadata = await self._discover()
        is_named = metadata.get("authorization_response_iss_parameter_supported") is True  # RFC 9207
        if query.get("iss", None if is_named else self.issuer) != self.issuer:
            who = "another issuer" if "iss" in query else "no issuer (iss)"
            raise SignInFailed(f"expected an answer of {self.issuer}, got one of {who}")
        if "error" in query:
            reason = query.get("error_description") or query["error"]
            raise SignInFailed(f"the issuer refused the sign-in: {reason[:300]}")
        code = query.get("code")
        if not code:
            raise SignInFailed("expected a code from the issuer, got none; sign in again")
        claims = await self._read_id_token(await self._trade(code, verifier))
        self._check_claims(claims, nonce)
        if not _is_email_verified(claims, metadata):
            claims = {name: value for name, value in claims.items() if name != "email"}
        return self._person(claims)

    async def _discover(self) -> dict[str, Any]:
        if self._clock() - self._metadata_at > _DISCOVERY_LIFETIME:
            url = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
            metadata = await self._fetch("GET", url)
            if metadata.get("issuer") != self.issuer:
                raise IssuerUnusable(
                    f"expected the issuer {self.issuer} in {url}, got {str(metadata.get('issuer'))[:200]!r}; "
                    "set WARRENER_CONSOLE_OIDC_ISSUER to exactly the issuer's own name"
                )
            self._metadata, self._metadata_at = metadata, self._clock()
        return self._metadata

    def _endpoint(self, metadata: Mapping[str, Any], name: str) -> str:
        url = metadata.get(name)
        if isinstance(url, str):
            parts = urlsplit(url)
            if parts.scheme == "https" or (parts.scheme == "http" and is_loopback_host(parts.netloc)):
                return url
        raise IssuerUnusable(f"expected an https URL as {name} of {self.issuer}, got {str(url)[:200]!r}")

    async def _trade(self, code: str, verifier: str) -> str:
        metadata = await self._discover()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": verifier,
            "client_id": self._client_id,
        }
        auth = None
        if (secret := self._settings.console_oidc_client_secret) is not None:
            methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
            if "client_secret_basic" in methods:
                # RFC 6749 encodes both as in a form, before Basic does.
                auth = httpx.BasicAuth(quote_plus(self._client_id), quote_plus(secret))
            else:
                form["client_secret"] = secret
        answer = await self._fetch("POST", self._endpoint(metadata, "token_endpoint"), form, auth)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise SignInFailed("expected an id token from the issuer, got none; allow the scope openid there")
        return token

    async def _fetch(
        self, method: str, url: str, form: Mapping[str, str] | None = None, auth: httpx.Auth | None = None
    ) -> dict[str, Any]:
        """Call the issuer. Its answer is a JSON object. Redirects are not followed."""
        try:
            options: dict[str, Any] = {"data": form, "headers": {"Accept": "application/json"}}
            options["auth"] = auth or httpx.USE_CLIENT_DEFAULT
            async with self._http.stream(method, url, **options) as response:
                body = b""
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > _MAX_ANSWER:
                        sentence = f"expected a short answer of {url}, got more than {_MAX_ANSWER} bytes"
                        raise IssuerUnusable(sentence)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise IssuerUnusable(f"expected an answer of {url}, got: {reason}; try again") from error
        document: object = None
        with suppress(ValueError):
            document = json.loads(body)
        answer = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
        if not isinstance(document, dict) or not response.is_success:
            reason = str(answer.get("error_description") or answer.get("error") or "")[:300]
            sentence = f"expected a JSON object of {url}, got status {response.status_code} {reason}"
            failure = SignInFailed if response.is_client_error else IssuerUnusable
            raise failure(sentence.rstrip())
        return answer

    async def _read_id_token(self, token: str) -> dict[str, Any]:
        """The claims of a token that a key of the issuer has signed."""
        try:
            try:
                return jwt.decode(token, await self._key_set(), _ALGORITHMS).claims
            except (InvalidKeyIdError, ValueError):  # a key that the issuer has made since
                return jwt.decode(token, await self._key_set(renew=True), _ALGORITHMS).claims
        except (JoseError, ValueError) as error:
            raise SignInFailed(f"expected an id token that {self.issuer} has signed, got: {error}") from error

    async def _key_set(self, *, renew: bool = False) -> KeySet:
        age = self._clock() - self._keys_at
        if self._keys is None or age > _DISCOVERY_LIFETIME or (renew and age > _KEYS_PAUSE):
            metadata = await self._discover()
            document = await self._fetch("GET", self._endpoint(metadata, "jwks_uri"))
            keys = [one for one in document.get("keys", []) if _is_public_signature_key(one)]
            self._keys = KeySet.import_key_set({"keys": keys})
            self._keys_at = self._clock()
        return self._keys

    def _check_claims(self, claims: Mapping[str, Any], nonce: str) -> None:
        registry = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY,
            iss={"essential": True, "value": self.issuer},
            sub={"essential": True},
            aud={"essential": True, "value": self._client_id},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            registry.validate(dict(claims))
        except JoseError as error:
            raise SignInFailed(
                f"expected an id token for this sign-in, got: {error}; sign in again"
            ) from error
        audiences: Any = claims["aud"]
        is_shared = isinstance(audiences, list) and len(cast("list[str]", audiences)) > 1
        party = claims.get("azp", None if is_shared else self._client_id)
        if party != self._client_id:
            raise SignInFailed("expected an id token for this console, got one for another party (azp)")

    def _person(self, claims: Mapping[str, Any]) -> SignedIn:
        settings, subject = self._settings, str(claims["sub"])
        name = claims.get(settings.console_oidc_name_claim)
        if not isinstance(name, str) or not name:
            name = subject
        found = values_of_claim(claims, settings.console_oidc_role_claim)
        known = settings.console_oidc_roles
        roles = [known[value] for value in found if value in known]
        if settings.console_oidc_default_role is not None:
            roles.append(settings.console_oidc_default_role)
        if not roles:
            raise SignInFailed(
                f"{name[:200]} has no role here: expected one of {', '.join(known)} "
                f"in the claim {settings.console_oidc_role_claim}, got {', '.join(found)[:200] or 'none'}; "
                "an admin of the issuer can change it"
            )
        role, credential = max(roles, key=list(Role).index), f"{self.issuer}#{subject.replace('#', '%23')}"
        return SignedIn(name[:200], role, "oidc", credential)


def _is_email_verified(claims: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """True if the issuer vouches for the email, or never says so of any: else anybody could enter one."""
    supported: Any = metadata.get("claims_supported")
    announced = isinstance(supported, list) and "email_verified" in supported
    verified = claims.get("email_verified", not announced)
    return verified is True or verified == "true"


def _is_public_signature_key(key: Any) -> bool:
    """True if a key of the issuer may have signed an id token: no shared secret, and not one for
    encryption."""
    if not isinstance(key, dict):
        return False
    fields = cast("dict[str, Any]", key)
    return fields.get("kty") in {"RSA", "EC", "OKP"} and fields.get("use", "sig") == "sig"


def values_of_claim(claims: Mapping[str, Any], path: str) -> list[str]:
    """The texts of a claim, which is a text or a list of texts. Names may have dots themselves, as URLs
    do."""
    found: Any = claims.get(path)
    if found is None:
        found = claims
        for part in path.split("."):
            found = cast("dict[str, Any]", found).get(part) if isinstance(found, dict) else None
    if isinstance(found, str):
        return [found]
    items: Iterable[Any] = cast("Iterable[Any]", found) if isinstance(found, list) else ()
    return [item for item in items if isinstance(item, str)]
