"""The pages by which people sign in and out."""

import hmac
from collections.abc import Callable, Mapping
from datetime import timedelta
from math import ceil
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlsplit

import structlog
from fastapi import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from warrener.web.access.guard import AccessRefused, address_of, check_csrf_token, check_origin
from warrener.web.access.oidc import CALLBACK, IssuerUnusable, SignedIn, SignInFailed
from warrener.web.access.origins import safe_path
from warrener.web.access.sessions import SessionGuard
from warrener.web.rendering import theme_of

_log = structlog.stdlib.get_logger(__name__)

_FORM, _OIDC = "sign-in form", "sign-in by OpenID Connect"
_COOKIES = {_FORM: "warrener_login", _OIDC: "warrener_oidc"}
_TIME_TO_SIGN_IN = timedelta(minutes=10)
_WRONG = "this name and token do not belong together; an admin of the console makes tokens"


class LoginPages:
    """`/login`, `/logout` and the way over the issuer of OpenID Connect.

    `render` renders a template that needs no principal.
    """

    def __init__(self, guard: SessionGuard, render: Callable[[str, Mapping[str, Any]], str]) -> None:
        self._guard, self._render = guard, render

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, without a principal."""
        routes: list[BaseRoute] = [
            Route("/login", self.show, methods=["GET"]),
            Route("/login", self.sign_in, methods=["POST"]),
            Route("/logout", self.sign_out, methods=["POST"]),
        ]
        if self._guard.provider is not None:
            routes += [
                Route("/login/oidc", self.start_oidc, methods=["GET"]),
                Route(CALLBACK, self.finish_oidc, methods=["GET"]),
            ]
        return routes

    async def show(self, request: Request) -> Response:
        return await self._form(request, safe_path(request.query_params.get("next")))

    async def _form(
        self, request: Request, next_path: str, sentence: str = "", status: int = 200, wait: float = 0
    ) -> Response:
        guard = self._guard
        browser = await self._browser(request) or token_urlsafe(16)
        context: Mapping[str, Any] = {
            "next": next_path,
            "sentence": sentence,
            "csrf_token": guard.signer.sign(_FORM, browser),
            "accepts_tokens": guard.settings.accepts_tokens,
            "issuer": None if guard.provider is None else guard.provider.issuer,
            "issuer_host": "" if guard.provider is None else urlsplit(guard.provider.issuer).netloc,
            "theme": theme_of(request.cookies),
        }
        response = HTMLResponse(self._render("login.html", context), status)
        response.headers["Cache-Control"] = "no-store"
        if wait:
            response.headers["Retry-After"] = str(ceil(wait))
        await self._set_cookie(request, response, _FORM, {"browser": browser})
        return response

    async def _browser(self, request: Request) -> str | None:
        """The random name that the form gave to this browser: nobody is signed in by a form of another
        site."""
        found = await self._read_cookie(request, _FORM)
        return None if found is None else str(found["browser"])

    async def sign_in(self, request: Request) -> Response:
        """Open a session for the token of the form."""
        guard, address = self._guard, address_of(request)
        form = await request.form()
        name, secret = (str(form.get(field) or "") for field in ("name", "token"))
        next_path = safe_path(str(form.get("next") or ""))
        try:
            await self._check_form(request, str(form.get("csrf_token") or ""))
        except AccessRefused as error:
            return await self._form(request, next_path, error.sentence, 403)
        if wait := guard.limiter.wait(address):
            return await self._too_many(request, next_path, wait)
        token = guard.tokens.find(secret.strip())
        if token is None or not hmac.compare_digest(
            token.name.encode(), name.strip().encode("utf-8", "replace")
        ):
            guard.limiter.fail(address)
            await guard.record_failure(request, name, "token", "name and token do not belong together")
            return await self._form(request, next_path, _WRONG, 401)
        known = SignedIn(token.name, token.role, "token", token.digest)
        return await self._welcome(request, known, next_path)

    async def _too_many(self, request: Request, next_path: str, wait: float) -> Response:
        minutes = ceil(wait / 60)
        sentence = f"too many failed sign-ins; try again in {minutes} minute{'s' if minutes > 1 else ''}"
        return await self._form(request, next_path, sentence, 429, wait)

    async def _check_form(self, request: Request, csrf_token: str) -> None:
        """Raise AccessRefused unless this browser was given the form."""
        check_origin(request, self._guard.settings.console_url)
        browser = await self._browser(request)
        if browser is None:
            raise AccessRefused(
                "the form is older than 10 minutes, or the browser refuses cookies; try again"
            )
        check_csrf_token(self._guard.signer.sign(_FORM, browser), csrf_token)

    async def _welcome(self, request: Request, known: SignedIn, next_path: str) -> Response:
        response = RedirectResponse(next_path, 303, headers={"Cache-Control": "no-store"})
        await self._guard.open_session(request, response, known)
        for cookie in _COOKIES.values():
            response.delete_cookie(cookie)
        who = {"name": known.name, "role": known.role.value, "method": known.method}
        _log.info("A person signed in.", action="console.signed_in", **who, address=address_of(request))
        return response

    async def sign_out(self, request: Request) -> Response:
        """End the session, if a page of ours has sent the form."""
        try:
            principal = await self._guard.identify(request)
            form = await request.form()
            await self._guard.check_write(request, principal, str(form.get("csrf_token") or ""))
        except AccessRefused as error:
            if error.status != 401:
                return await self._form(request, "/", error.sentence, error.status)
        response = RedirectResponse("/login", 303, headers={"Cache-Control": "no-store"})
        await self._guard.end_session(request, response)
        return response

    async def start_oidc(self, request: Request) -> Response:
        """Send the browser to the issuer."""
        assert self._guard.provider is not None
        next_path = safe_path(request.query_params.get("next"))
        try:
            url, begun = await self._guard.provider.start()
        except SignInFailed as error:
            _log.error("A sign-in cannot begin.", action="console.oidc_unusable", reason=str(error))
            return await self._form(request, next_path, str(error), 502)
        response = RedirectResponse(url, 303, headers={"Cache-Control": "no-store"})
        content = {**begun, "next": next_path}
        await self._set_cookie(request, response, _OIDC, content)
        return response

    async def finish_oidc(self, request: Request) -> Response:
        """Open a session for the person whom the issuer names."""
        guard, address = self._guard, address_of(request)
        assert guard.provider is not None
        begun = await self._read_cookie(request, _OIDC)
        state = request.query_params.get("state", "")
        if begun is None or not hmac.compare_digest(
            str(begun["state"]).encode(), state.encode("utf-8", "replace")
        ):
            sentence = "this sign-in was not begun by this browser within 10 minutes; sign in again"
            # Not a failure of this address: any page of the web can send a browser here.
            if guard.limiter.is_first(address, "callback"):
                await guard.record_failure(request, "", "oidc", sentence)
            return await self._form(request, "/", sentence, 403)
        next_path = safe_path(str(begun["next"]))
        if wait := guard.limiter.wait(address):
            return await self._too_many(request, next_path, wait)
        try:
            person = await guard.provider.finish(
                request.query_params, str(begun["nonce"]), str(begun["verifier"])
            )
        except SignInFailed as error:
            if not isinstance(error, IssuerUnusable):  # an outage is nobody's failure
                guard.limiter.fail(address)
            await guard.record_failure(request, "", "oidc", str(error))
            response = await self._form(request, next_path, str(error), 403)
            response.delete_cookie(_COOKIES[_OIDC])  # a code and its state are good for one try
            return response
        return await self._welcome(request, person, next_path)

    async def _read_cookie(self, request: Request, purpose: str) -> dict[str, Any] | None:
        sealed = request.cookies.get(_COOKIES[purpose], "")
        return self._guard.signer.unseal(purpose, sealed, await self._guard.console.now())

    async def _set_cookie(
        self, request: Request, response: Response, purpose: str, content: Mapping[str, Any]
    ) -> None:
        expires_at = await self._guard.console.now() + _TIME_TO_SIGN_IN
        response.set_cookie(
            _COOKIES[purpose],
            self._guard.signer.seal(purpose, content, expires_at),
            max_age=int(_TIME_TO_SIGN_IN.total_seconds()),
            httponly=True,
            # The browser comes back from the issuer: a strict cookie would not come with it.
            samesite="strict" if purpose == _FORM else "lax",
            secure=self._guard.is_https(request),
        )
