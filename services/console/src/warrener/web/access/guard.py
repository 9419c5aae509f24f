"""The guard of the console: decides who a request comes from, and whether it may write."""

import hmac
from secrets import token_urlsafe
from typing import Protocol

from fastapi import Request
from starlette.responses import Response

from warrener.operations.roles import Principal, Role
from warrener.web.access.origins import is_from_elsewhere, is_loopback_host, origin_of

_OF_PROXIES = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


class AccessRefused(Exception):
    """The request may not go on; the text is a sentence for its reader. `answer`: sent as it is, if given."""

    def __init__(self, sentence: str, status: int = 403, answer: Response | None = None) -> None:
        self.sentence, self.status, self.answer = sentence, status, answer
        super().__init__(sentence)


class Guard(Protocol):
    """Access control of all routes."""

    async def identify(self, request: Request) -> Principal:
        """Return the principal of a request. Raises AccessRefused."""
        ...

    def csrf_token(self, request: Request) -> str:
        """Return the token that forms of this reader carry."""
        ...

    async def check_write(self, request: Request, principal: Principal, csrf_token: str | None) -> None:
        """Raise AccessRefused unless the request was sent by a page of ours or with a credential of its own.

        `csrf_token` is the field of the form, or the header `X-CSRF-Token`.
        """


async def identify(guard: Guard, request: Request) -> Principal:
    """Find the principal of a request once, and note it in `request.state`. Raises AccessRefused."""
    if not hasattr(request.state, "principal"):
        request.state.principal = await guard.identify(request)
    principal: Principal = request.state.principal
    return principal


def check_role(principal: Principal, wanted: Role, what: str) -> None:
    """Raise AccessRefused if the role of a principal does not suffice."""
    if not principal.role.allows(wanted):
        sentence = f"expected the role {wanted} for {what}, got {principal.role}; an admin can change it"
        raise AccessRefused(sentence)


def address_of(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def own_origin(request: Request, console_url: str | None) -> str:
    """The origin of the console's pages: the setting, else the host that the request names."""
    return origin_of(console_url) if console_url is not None else origin_of(str(request.url))


def check_origin(request: Request, console_url: str | None) -> None:
    """Raise AccessRefused if a page of another site has sent the request."""
    own = own_origin(request, console_url)
    if is_from_elsewhere(request.headers, own):
        raise AccessRefused(
            f"expected a request from a page of {own}, got one of another site; "
            "behind a proxy, set WARRENER_CONSOLE_URL to the public address"
        )


def check_csrf_token(expected: str, got: str | None) -> None:
    """Raise AccessRefused unless both are the same; takes as long for every wrong token."""
    if got is None or not hmac.compare_digest(expected.encode(), got.encode("utf-8", "surrogatepass")):
        raise AccessRefused("expected a form of this console, got one without its token; open the page again")


class OpenGuard:
    """Everybody on this machine is an admin: for a console that listens on loopback alone.

    Pages of other sites are kept out: by the `Host` header, by `Origin`, and by the token of forms.
    """

    def __init__(self, csrf_token: str | None = None) -> None:
        self._csrf_token = csrf_token or token_urlsafe(32)

    async def identify(self, request: Request) -> Principal:
        host = request.headers.get("host", "")
        if not is_loopback_host(host):
            raise AccessRefused(
                f"expected an address of this machine such as http://127.0.0.1, got {host[:200]!r}; "
                "to serve the console to others, set up tokens or OpenID Connect"
            )
        if any(name in request.headers for name in _OF_PROXIES):
            raise AccessRefused(
                "expected a browser of this machine, got a request that a proxy has passed on; "
                "to serve the console to others, set up tokens or OpenID Connect"
            )
        return Principal("local", Role.ADMIN, "open")

    def csrf_token(self, request: Request) -> str:
        return self._csrf_token

    async def check_write(self, request: Request, principal: Principal, csrf_token: str | None) -> None:
        check_origin(request, None)
        # No page of another site can send JSON without a preflight request, which is never granted.
        if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            check_csrf_token(self._csrf_token, csrf_token)
