"""The application: every page, action and API route of the site behind the guard."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit
from zoneinfo import ZoneInfo

import structlog
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from warrener.errors import CommandError, ExitCode, NothingFound, find_failures
from warrener.operations.roles import Principal
from warrener.options import field_problem
from warrener.web.access.guard import AccessRefused, Guard, check_role, identify
from warrener.web.access.login import LoginPages
from warrener.web.access.middleware import ProblemResponse, RequestLimits, SecureHeaders
from warrener.web.access.sessions import SessionGuard
from warrener.web.actions import ActionServer
from warrener.web.console import Console
from warrener.web.live.hub import EventStream, Hub, LiveContent, LiveKey, PageGone, TooManyViewers
from warrener.web.page import Page, PageMoved, PageRequest, Reader, View
from warrener.web.rendering import NOTICE_COOKIE, Notice, Renderer, theme_of
from warrener.web.site import Site
from warrener.web.static_files import serve_static

log = structlog.stdlib.get_logger(__name__)

API_PREFIX = "/api/v1"
_UTC = ZoneInfo("UTC")


def create_app(console: Console, site: Site, guard: Guard) -> FastAPI:
    """Make the application. `console` is open, and closed by its opener. Its hub is `app.state.hub`."""
    app = FastAPI(
        title="Warrener",
        version="1",
        docs_url=None,  # their pages load scripts of another host
        redoc_url=None,
        openapi_url=f"{API_PREFIX}/openapi.json",
    )
    app.state.console = console
    server = SiteServer(console, site, guard)
    actions = ActionServer(console, guard, server.renderer, server.hub)
    app.state.hub = server.hub
    app.add_middleware(ErrorBoundary, answer=server.answer_error)
    app.add_middleware(GZipMiddleware, minimum_size=1000)
    app.add_middleware(RequestLimits)
    app.add_middleware(SecureHeaders, console_url=console.settings.console_url)
    app.add_route("/health", _healthy, include_in_schema=False)
    app.add_route("/live", server.watch, include_in_schema=False)
    app.add_route("/static/{digest}/{name}", serve_static, include_in_schema=False)
    if isinstance(guard, SessionGuard):
        app.router.routes.extend(LoginPages(guard, server.renderer.standalone).routes)
    for page in site.ordered_pages:
        app.add_route(page.path, server.page_endpoint(page), name=page.name, include_in_schema=False)
    for action in site.actions.values():
        app.add_route(action.path, actions.form_endpoint(action), ["POST"], include_in_schema=False)
    for router in (*site.routers, actions.router(site)):
        app.include_router(router, prefix=API_PREFIX, dependencies=[Depends(server.identify)])
    for error in (PageMoved, AccessRefused, CommandError, HTTPException, RequestValidationError):
        app.add_exception_handler(error, server.answer_error)
    return app


class ErrorBoundary:
    """Answers an error that no handler knows. Starlette's own place for it is outside all middleware."""

    def __init__(self, app: ASGIApp, answer: Callable[[Request, Exception], Awaitable[Response]]) -> None:
        self._app, self._answer = app, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_started = False

        async def noting_send(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        try:
            await self._app(scope, receive, noting_send)
        except Exception as error:
            if is_started or scope["type"] != "http":
                raise
            answer = await self._answer(Request(scope, receive), error)
            await answer(scope, receive, send)


async def _healthy(request: Request) -> Response:
    console: Console = request.app.state.console
    try:
        await console.store.ping()
    except Exception as error:  # noqa: BLE001 - any failure makes the console unusable
        return JSONResponse({"status": "unavailable", "store": f"{type(error).__name__}"}, 503)
    return JSONResponse({"status": "ok"})


class SiteServer:
    """Answers requests for pages and actions."""

    def __init__(self, console: Console, site: Site, guard: Guard) -> None:
        self.console, self.site, self._guard = console, site, guard
        self.renderer = Renderer(site, console.masker)
        self.hub = Hub(
            self.render_live,
            viewer_limit=console.settings.console_viewer_limit,
            principal_limit=console.settings.console_principal_viewer_limit,
        )

    async def identify(self, request: Request) -> Principal:
        return await identify(self._guard, request)

    async def reader(self, request: Request) -> Reader:
        """The reader of a request: principal, zone and theme."""
        principal = await self.identify(request)
        return Reader(
            principal, _zone_of(request), theme_of(request.cookies), self._guard.csrf_token(request)
        )

    def page_endpoint(self, page: Page) -> Callable[[Request], Awaitable[Response]]:

        async def show(request: Request) -> Response:
            reader, path = await self.reader(request), request.path_params
            wanted = await self.page_request(page, reader, _url_of(request), path, request.query_params)
            view = await page.view(wanted)
            notice = Notice.decode(request.cookies.get(NOTICE_COOKIE, ""))
            headers = {"Cache-Control": "no-store", "Vary": "HX-Request"}
            if request.headers.get("HX-Request") == "true":
                return HTMLResponse(self.renderer.content(wanted, page, view), headers=headers)
            response = HTMLResponse(self.renderer.page(wanted, page, view, notice), headers=headers)
            if notice is not None:
                response.delete_cookie(NOTICE_COOKIE)
            return response

        return show

    async def page_request(
        self, page: Page, reader: Reader, url: str, path: Mapping[str, Any], query: Mapping[str, str]
    ) -> PageRequest:
        """Make the request of a page's view. Raises AccessRefused if the role does not suffice."""
        check_role(reader.principal, page.role, f"the page {page.section}")
        return PageRequest(
            console=self.console,
            reader=reader,
            now=await self.console.now(),
            url=url,
            path={name: str(value) for name, value in path.items()},
            query=dict(query),
        )

    async def watch(self, request: Request) -> Response:
        """Stream the changes of the page in the parameter `page`."""
        principal = await self.identify(request)
        url = request.query_params.get("page", "")
        found = self.site.match(urlsplit(url).path)
        if found is None:
            raise NothingFound("expected the path of a page in the parameter page, got another")
        page, _ = found
        check_role(principal, page.role, f"the page {page.section}")
        try:
            key = LiveKey(url, principal.role, _zone_of(request).key)
            return EventStream(self.hub, key, principal.name, partial(self._is_still, principal, request))
        except TooManyViewers as error:
            return Response(f"{error}; this page refreshes by itself", 503, media_type="text/plain")

    async def _is_still(self, principal: Principal, request: Request) -> bool:
        """True if the request of an open stream comes from the same principal, with the same role."""
        try:
            return await self._guard.identify(request) == principal
        except AccessRefused:
            return False

    async def render_live(self, key: LiveKey) -> LiveContent:
        """Render the content of a page for all its readers. Raises PageGone."""
        parts = urlsplit(key.url)
        found = self.site.match(parts.path)
        if found is None:
            raise PageGone
        page, path = found
        # All readers of the key share it, so it has neither name nor token of one of them.
        reader = Reader(Principal("", key.role, "token"), ZoneInfo(key.zone))
        parameters = {name: unquote(text) for name, text in path.items()}
        wanted = await self.page_request(page, reader, key.url, parameters, dict(parse_qsl(parts.query)))
        try:
            view = await page.view(wanted)
        except CommandError as error:
            if _describe(error).status == 503:  # an outage: the page stays as it is
                raise
            raise PageGone from error
        return LiveContent(
            html=self.renderer.content(wanted, page, view),
            topics=page.topics_of(wanted),
            refresh=view.refresh or page.refresh,
        )

    async def answer_error(self, request: Request, error: Exception) -> Response:
        """Answer an error as a page, as a notice, or as JSON."""
        if isinstance(error, AccessRefused) and error.answer is not None:
            return error.answer
        if isinstance(error, PageMoved):
            return RedirectResponse(str(error), 303)
        problem = _describe(error)
        if problem.status == 500:
            log.error("A request failed.", action="console.failed", path=request.url.path, exc_info=error)
        if request.url.path.startswith(f"{API_PREFIX}/"):
            return ProblemResponse(problem.status, problem.sentence, problem.what_to_do)
        is_part = request.headers.get("HX-Request") == "true"
        if request.method == "POST" and is_part:
            notice = Notice(problem.sentence, accepted=False)
            return HTMLResponse(self.renderer.notice(notice), problem.status)
        try:
            reader = await self.reader(request)
        except AccessRefused:
            return Response(problem.sentence, problem.status, media_type="text/plain")
        wanted = PageRequest(
            console=self.console,
            reader=reader,
            now=datetime.now(UTC),
            url=_url_of(request),
            path={},
            query={},
        )
        view = View(problem.title, {"problem": problem})
        render = self.renderer.content if is_part else self.renderer.page
        return HTMLResponse(render(wanted, None, view), problem.status)


class Problem(NamedTuple):
    """An error as its reader sees it."""

    status: int
    title: str
    sentence: str
    what_to_do: str = ""


def _describe(error: Exception) -> Problem:
    match error:
        case NothingFound():
            problem = Problem(404, "Not found", str(error))
        case CommandError(code=ExitCode.USAGE):
            problem = Problem(400, "This address has a mistake", str(error))
        case AccessRefused():
            problem = Problem(error.status, "Not allowed", error.sentence)
        case RequestValidationError():
            wrong = "; ".join(map(field_problem, error.errors()))
            problem = Problem(422, "This request has a mistake", wrong)
        case HTTPException(status_code=404):
            problem = Problem(404, "Not found", "No page has this address.", "Choose a section above.")
        case HTTPException():
            problem = Problem(error.status_code, "Not possible", str(error.detail))
        case _ if failures := [error] if isinstance(error, CommandError) else find_failures(error):
            problem = Problem(503, "Not reachable", failures[-1].sentence, failures[-1].do or "")
        case _:
            problem = Problem(
                500, "This page failed", "An error of the console; its log has it.", "Try again."
            )
    return problem


def _url_of(request: Request) -> str:
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


def _zone_of(request: Request) -> ZoneInfo:
    """The reader's zone by its cookie; UTC without."""
    name = request.cookies.get("zone", "")
    try:
        return ZoneInfo(name) if name and len(name) < 64 else _UTC
    except (KeyError, ValueError, OSError):  # no zone, or no name of one
        return _UTC
