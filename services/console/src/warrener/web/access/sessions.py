"""The guard of a console that others use: bearer tokens for programs, sessions for people.

A session is a row of the store; the cookie has its id, signed. The row has a hash of the id, so that
neither a copy of the database nor a forged cookie opens a session. Its role is looked up at each request.
"""

from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from math import ceil
from secrets import token_urlsafe
from time import monotonic
from urllib.parse import quote
from uuid import uuid4

import structlog
from fastapi import Request
from starlette.responses import RedirectResponse, Response

from warrener.errors import UsageError
from warrener.operations.roles import Principal, Role
from warrener.web.access.guard import (
    AccessRefused,
    Guard,
    OpenGuard,
    address_of,
    check_csrf_token,
    check_origin,
)
from warrener.web.access.middleware import ProblemResponse
from warrener.web.access.oidc import OpenIdProvider, SignedIn
from warrener.web.access.origins import network_of, safe_path
from warrener.web.access.signing import Signer, read_secret
from warrener.web.access.tokens import TokenList
from warrener.web.console import Console
from warrener.web.settings import HOW_TO_SIGN_IN, check_access
from warrener_runtime.terminal import escape_controls
from warrener_store.audit.rows import AuditOutcome, AuditRecord
from warrener_store.sessions.rows import SessionRow

_log = structlog.stdlib.get_logger(__name__)

_SESSION = "session"
_WINDOW = 300.0  # seconds after which a failed sign-in no longer counts
_MAX_KEYS, _MAX_RECORDED = 10_000, 100
_RECORDED = ("all", "")
_MAX_COOKIE = 200  # characters


class LoginLimiter:
    """Counts failed sign-ins and wrong bearer tokens: `limit` of them within the window block an address.

    No number of them blocks a name, or anybody could lock others out. Memory is bounded: of more than 10,000
    keys the oldest is forgotten.
    """

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self._limit, self._clock = limit, clock
        self._failures: OrderedDict[tuple[str, str], list[float]] = OrderedDict()

    def wait(self, address: str) -> float:
        """Seconds for which this address is blocked; 0: it may try."""
        moments = self._recent(("address", network_of(address)))
        return moments[-self._limit] + _WINDOW - self._clock() if len(moments) >= self._limit else 0.0

    def fail(self, address: str, guess: str = "") -> bool:
        """Count a failure. False if it is a repeat: a program with an old token guesses but once."""
        network = network_of(address)
        if guess and not self._count(("guess", f"{network} {guess}")):
            return False
        self._count(("address", network), self._limit)
        return True

    def is_first(self, address: str, kind: str) -> bool:
        """True for the first of its kind from an address within a window; it counts as no failure."""
        return self._count((kind, network_of(address)))

    def may_record(self) -> bool:
        """True for the first hundred failures of a window: the audit log is no place to fill a disk."""
        return len(self._recent(_RECORDED)) < _MAX_RECORDED and self._count(_RECORDED, _MAX_RECORDED)

    def _recent(self, key: tuple[str, str]) -> list[float]:
        return [moment for moment in self._failures.get(key, []) if moment > self._clock() - _WINDOW]

    def _count(self, key: tuple[str, str], limit: int = 1) -> bool:
        """Count it under a key; False if the key had `limit` already."""
        recent = self._recent(key)
        self._failures[key] = [*recent, self._clock()][-limit:]
        self._failures.move_to_end(key)
        while len(self._failures) > _MAX_KEYS:
            self._failures.popitem(last=False)
        return len(recent) < limit


class SessionGuard:
    """Lets in who has a bearer token or a session, and sends the others to the pages to sign in."""

    def __init__(self, console: Console, signer: Signer, clock: Callable[[], float] = monotonic) -> None:
        settings = console.settings
        self.console, self.settings, self.signer = console, settings, signer
        self.tokens = TokenList(settings.console_tokens, settings.console_tokens_file)
        self.limiter = LoginLimiter(settings.console_login_limit, clock)
        has_issuer = settings.console_oidc_issuer is not None
        self.provider = OpenIdProvider(settings, clock) if has_issuer else None

    async def identify(self, request: Request) -> Principal:
        header = request.headers.get("authorization")
        if header is not None:
            return await self._identify_program(request, header)
        session_id = self._session_id(request)
        row = None if session_id is None else await self.console.store.session(_key(session_id))
        principal = None if row is None else self._principal_of(row, await self.console.now())
        if principal is None:
            raise self._unknown(request)
        request.state.session_id = session_id
        return principal

    async def _identify_program(self, request: Request, header: str) -> Principal:
        scheme, _, secret = header.partition(" ")
        token = self.tokens.find(secret.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise await self._refuse_program(request, header)
        request.state.session_id = None
        return Principal(token.name, token.role, "token")

    async def _refuse_program(self, request: Request, header: str) -> AccessRefused:
        """Count a wrong token. Right ones are never limited, or any neighbour could lock programs out."""
        address = address_of(request)
        if wait := self.limiter.wait(address):
            sentence = f"expected fewer wrong tokens of {address}, got {self.settings.console_login_limit}"
            headers = {"Retry-After": str(ceil(wait))}
            answer = ProblemResponse(429, sentence, f"try again in {ceil(wait)} seconds", headers)
            return AccessRefused(sentence, 429, answer)
        if self.limiter.fail(address, guess=_key(header)):
            await self.record_failure(request, "", "token", "a wrong bearer token")
        sentence = "expected `Authorization: Bearer` with a token of this console, got another"
        return AccessRefused(sentence, 401, _challenge())

    async def record_failure(self, request: Request, name: str, method: str, reason: str) -> None:
        """Log a failed sign-in, and record it in the audit log; no token that was entered as a name."""
        name = "" if self.tokens.find(name.strip()) else name[:64]
        who = {"name": escape_controls(name), "address": address_of(request), "method": method}
        _log.warning("A sign-in failed.", action="console.sign_in_failed", **who, reason=reason)
        if self.limiter.may_record():
            await self._record(request, (who["name"], "", method), AuditOutcome.REFUSED, reason)

    async def _record(
        self, request: Request, who: tuple[str, str, str], outcome: AuditOutcome, sentence: str
    ) -> None:
        (actor, role, method), now = who, await self.console.now()
        await self.console.store.record_action(
            AuditRecord(
                record_id=uuid4(),
                recorded_at=now,
                actor=actor,
                role=role,
                method=method,
                address=address_of(request),
                action="console.sign_in",
                subject="",
                reason="",
                outcome=outcome,
                sentence=escape_controls(sentence[:1000]),
                completed_at=now,
            )
        )

    def _session_id(self, request: Request) -> str | None:
        cookie = request.cookies.get(self.cookie_name(request), "")
        session_id, dot, signature = cookie.partition(".")
        if not dot or len(cookie) > _MAX_COOKIE or not self.signer.check(_SESSION, session_id, signature):
            return None
        return session_id

    def _principal_of(self, row: SessionRow, now: datetime) -> Principal | None:
        """The principal of a session, with the role that its token has now. None: it has expired, or its
        token was deleted, or its issuer is no longer configured."""
        if now >= row.expires_at:
            return None
        if row.method == "token":
            token = self.tokens.by_digest(row.credential)
            return None if token is None else Principal(token.name, token.role, "token")
        issuer, _, _ = row.credential.rpartition("#")
        if row.method != "oidc" or self.provider is None or issuer != self.provider.issuer:
            return None
        return Principal(row.actor, Role(row.role), "oidc") if row.role in set(Role) else None

    def _unknown(self, request: Request) -> AccessRefused:
        sentence = "expected a person who is signed in, got none; sign in, or send `Authorization: Bearer`"
        path = request.url.path
        if path.startswith("/api/"):
            return AccessRefused(sentence, 401, _challenge(sentence))
        if request.headers.get("HX-Request") == "true":
            # The page that was open, not the fragment that it fetched.
            return AccessRefused(sentence, 401, Response(status_code=401, headers={"HX-Refresh": "true"}))
        if request.method != "GET" or path == "/live":
            return AccessRefused(sentence, 401)
        where = f"{path}?{request.url.query}" if request.url.query else path
        answer = RedirectResponse(f"/login?next={quote(safe_path(where), safe='/')}", 303)
        return AccessRefused(sentence, 401, answer)

    def csrf_token(self, request: Request) -> str:
        session_id: str | None = getattr(request.state, "session_id", None)
        return "" if session_id is None else self.signer.sign("csrf", session_id)

    async def check_write(self, request: Request, principal: Principal, csrf_token: str | None) -> None:
        if getattr(request.state, "session_id", None) is None:
            return  # a bearer token, which no browser sends by itself
        check_origin(request, self.settings.console_url)
        check_csrf_token(self.csrf_token(request), csrf_token)

    def is_https(self, request: Request) -> bool:
        """True if browsers reach the console by https."""
        return (self.settings.console_url or str(request.url)).startswith("https:")

    def cookie_name(self, request: Request) -> str:
        """The name of the session's cookie. Browsers accept `__Host-` from this host by https alone."""
        return "__Host-warrener_session" if self.is_https(request) else "warrener_session"

    async def open_session(self, request: Request, response: Response, known: SignedIn) -> None:
        """Begin a session under a new id, and end the one that the browser had."""
        if (before := self._session_id(request)) is not None:
            await self.console.store.end_session(_key(before))
        sentence = "signed in" if known.method == "token" else f"signed in by {known.credential}"
        who = (known.name, known.role.value, known.method)
        await self._record(request, who, AuditOutcome.ACCEPTED, sentence)
        session_id, now = token_urlsafe(32), await self.console.now()
        timeout = self.settings.console_session_timeout
        await self.console.store.open_session(
            SessionRow(
                session_key=_key(session_id),
                actor=known.name,
                role=known.role.value,
                method=known.method,
                credential=known.credential,
                opened_at=now,
                expires_at=now + timeout,
            )
        )
        response.set_cookie(
            self.cookie_name(request),
            f"{session_id}.{self.signer.sign(_SESSION, session_id)}",
            max_age=int(timeout.total_seconds()),
            httponly=True,
            samesite="lax",  # a link in a chat leads to the page; writes carry a token
            secure=self.is_https(request),
        )

    async def end_session(self, request: Request, response: Response) -> None:
        if (session_id := self._session_id(request)) is not None:
            await self.console.store.end_session(_key(session_id))
        response.delete_cookie(
            self.cookie_name(request), httponly=True, samesite="lax", secure=self.is_https(request)
        )


def build_guard(console: Console) -> Guard:
    """The guard of a console. Raises CommandError if nobody, or anybody, could use it."""
    settings = console.settings
    check_access(settings)
    if not settings.has_sign_in:
        return OpenGuard()
    signer = Signer(read_secret(settings.console_secret, settings.console_secret_file))
    guard = SessionGuard(console, signer)
    if guard.provider is None and not guard.tokens.tokens():
        raise UsageError(
            f"expected a token in {settings.console_tokens_file}, got none: nobody could sign in",
            do=HOW_TO_SIGN_IN,
        )
    return guard


def _key(session_id: str) -> str:
    return sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()


def _challenge(sentence: str = "expected a token of this console, got another") -> Response:
    """The answer to a program that is not known."""
    return ProblemResponse(
        401,
        sentence,
        "make a token with `warrener console token NAME --role ROLE`",
        {"WWW-Authenticate": 'Bearer realm="warrener"', "Cache-Control": "no-store"},
    )
