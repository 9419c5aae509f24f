"""The application: every page, action and API route of the site behind the guard."""

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any
from urllib.parse import parse_qsl, unquote, urlsplit
from zoneinfo import ZoneInfo

import structlog
from fastapi import APIRouter, Body, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from warrener.errors import CommandError, ExitCode, NothingFound, find_failures
from warrener.operations.noun import ActionBody, Outcome, OutcomeBody
from warrener.operations.roles import Principal, Role, describe_lack
from warrener.options import field_problem
from warrener.web.access.audit import AuditTrail, CalledAction
from warrener.web.access.guard import AccessRefused, Guard, address_of, own_origin
from warrener.web.access.middleware import RequestLimits, SecureHeaders
from warrener.web.access.origins import origin_of, safe_path
from warrener.web.access.problems import ProblemResponse
from warrener.web.action import Action, ActionRequest
from warrener.web.console import Console
from warrener.web.live.hub import EventStream, Hub, LiveContent, LiveKey, PageGone, TooManyViewers
from warrener.web.page import BadQuery, Page, PageMoved, PageNotFound, PageRequest, View
from warrener.web.rendering import Notice, Reader, Renderer, Rendering, theme_of
from warrener.web.site import Site
from warrener.web.static_files import serve_static
from warrener_store.audit.rows import AuditOutcome

log = structlog.stdlib.get_logger(__name__)

API_PREFIX = "/api/v1"
_NOTICE_COOKIE = "warrener_notice"
_MAX_NOTICE = 1500  # characters; browsers store 4096 bytes a cookie
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
    app.state.hub = server.hub
    app.add_middleware(ErrorBoundary, answer=server.answer_error)
    app.add_middleware(GZipMiddleware, minimum_size=1000)
    app.add_middleware(RequestLimits)
    app.add_middleware(SecureHeaders, console_url=console.settings.console_url)
    app.add_route("/health", _healthy, include_in_schema=False)
    app.add_route("/live", server.watch, include_in_schema=False)
    app.add_route("/static/{digest}/{name}", serve_static, include_in_schema=False)
    app.router.routes.extend(guard.routes(server.renderer.standalone))
    for page in site.ordered_pages:
        app.add_route(page.path, server.page_endpoint(page), name=page.name, include_in_schema=False)
    for action in site.actions.values():
        app.add_route(action.path, server.form_endpoint(action), ["POST"], include_in_schema=False)
    for router in (*site.routers, server.actions_router()):
        app.include_router(router, prefix=API_PREFIX, dependencies=[Depends(server.identify)])
    handled = (
        PageNotFound,
        PageMoved,
        BadQuery,
        AccessRefused,
        CommandError,
        HTTPException,
        RequestValidationError,
    )
    for error in handled:
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
        self._audit = AuditTrail(console)
        self.hub = Hub(
            self.render_live,
            viewer_limit=console.settings.console_viewer_limit,
            principal_limit=console.settings.console_principal_viewer_limit,
        )

    async def identify(self, request: Request) -> Principal:
        """Find the principal of a request, and note it in `request.state`. Raises AccessRefused."""
        principal: Principal | None = getattr(request.state, "principal", None)
        if principal is None:
            principal = request.state.principal = await self._guard.identify(request)
        return principal

    async def reader(self, request: Request) -> Reader:
        """The reader of a request: principal, zone and theme."""
        principal = await self.identify(request)
        return Reader(principal, zone_of(request), theme_of(request.cookies), self._guard.csrf_token(request))

    # -- pages -----------------------------------------------------------------------------------------------

    def page_endpoint(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        """Make the handler of a page."""

        async def show(request: Request) -> Response:
            reader = await self.reader(request)
            wanted = await self.page_request(page, reader, request.path_params, request.query_params)
            view = await page.view(wanted)
            notice = _read_notice(request)
            rendering = Rendering(
                page=page, view=view, reader=reader, now=wanted.now, url=url_of(request), notice=notice
            )
            headers = {"Cache-Control": "no-store", "Vary": "HX-Request"}
            if request.headers.get("HX-Request") == "true":
                return HTMLResponse(self.renderer.content(rendering), view.status, headers)
            response = HTMLResponse(self.renderer.page(rendering), view.status, headers)
            if notice is not None:
                response.delete_cookie(_NOTICE_COOKIE)
            return response

        return show

    async def page_request(
        self, page: Page, reader: Reader, path: Mapping[str, Any], query: Mapping[str, str]
    ) -> PageRequest:
        """Make the request of a page's view. Raises AccessRefused if the role does not suffice."""
        _check_role(reader.principal, page.role, f"the page {page.section}")
        return PageRequest(
            console=self.console,
            principal=reader.principal,
            zone=reader.zone,
            now=await self.console.now(),
            path={name: str(value) for name, value in path.items()},
            query=dict(query),
        )

    async def watch(self, request: Request) -> Response:
        """Stream the changes of the page in the parameter `page`."""
        principal = await self.identify(request)
        url = request.query_params.get("page", "")
        found = self.site.match(urlsplit(url).path)
        if found is None:
            raise PageNotFound("expected the path of a page in the parameter page, got another")
        _check_role(principal, found[0].role, f"the page {found[0].section}")
        try:
            key = LiveKey(url, principal.role, zone_of(request).key)
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
        query = dict(parse_qsl(parts.query))
        wanted = await self.page_request(
            page, reader, {name: unquote(text) for name, text in path.items()}, query
        )
        try:
            view = await page.view(wanted)
        except (PageNotFound, BadQuery, NothingFound) as error:
            raise PageGone from error
        return LiveContent(
            html=self.renderer.content(
                Rendering(page=page, view=view, reader=reader, now=wanted.now, url=key.url)
            ),
            topics=page.topics_of(wanted),
            refresh=view.refresh or page.refresh,
        )

    # -- actions ---------------------------------------------------------------------------------------------

    def form_endpoint(self, action: Action) -> Callable[[Request], Awaitable[Response]]:
        """Make the handler of an action's form."""

        async def submit(request: Request) -> Response:
            principal = await self.identify(request)
            form = await request.form()
            fields: dict[str, Any] = {}
            for name in form:
                values = [value for value in form.getlist(name) if isinstance(value, str)]
                fields[name] = values[0] if len(values) == 1 else values
            token = fields.pop("csrf_token", None) or request.headers.get("X-CSRF-Token")
            await self._guard.check_write(request, principal, token if isinstance(token, str) else None)
            await self._check_action(action, request, principal)
            try:
                body = action.body.model_validate(
                    {name: value for name, value in fields.items() if value != ""}
                )
            except ValidationError as error:
                wrong = "; ".join(map(field_problem, error.errors(include_url=False)))
                outcome = Outcome(accepted=False, sentence=f"refused: {wrong}")
            else:
                outcome = await self.perform(action, request, principal, body)
            return self._answer_form(request, outcome)

        return submit

    def _answer_form(self, request: Request, outcome: Outcome) -> Response:
        notice = Notice(outcome.sentence, outcome.accepted)
        if request.headers.get("HX-Request") == "true" and outcome.location is None:
            headers = {"HX-Trigger": "warrener:refresh", "Cache-Control": "no-store"}
            return HTMLResponse(self.renderer.notice(notice), headers=headers)
        where = outcome.location or self._path_of_referer(request)
        if request.headers.get("HX-Request") == "true":
            response = Response(status_code=200, headers={"HX-Redirect": where})
        else:
            response = RedirectResponse(where, 303)
        response.set_cookie(
            _NOTICE_COOKIE,
            _write_notice(notice),
            max_age=60,
            httponly=True,
            samesite="strict",
            secure=own_origin(request, self.console.settings.console_url).startswith("https:"),
        )
        return response

    def _path_of_referer(self, request: Request) -> str:
        """The page that a form was sent from, of this console; the overview without."""
        referer = request.headers.get("referer", "")
        if origin_of(referer) != own_origin(request, self.console.settings.console_url):
            return "/"
        parts = urlsplit(referer)
        return safe_path(f"{parts.path}?{parts.query}" if parts.query else parts.path)

    def actions_router(self) -> APIRouter:
        """Make the API routes of all actions."""
        router = APIRouter(tags=["actions"])
        for action in self.site.actions.values():
            router.add_api_route(
                action.path,
                self._json_endpoint(action),
                methods=["POST"],
                name=action.name,
                summary=action.name,
                description=f"Role: {action.role}.",
                dependencies=[Depends(self._checked(action))],
                response_model=OutcomeBody,
                responses={409: {"model": OutcomeBody, "description": "Refused"}},
            )
        return router

    def _checked(self, action: Action) -> Callable[[Request], Awaitable[None]]:
        """Make the dependency of an action's API route, which runs before its body is read."""

        async def check(request: Request) -> None:
            principal = await self.identify(request)
            await self._guard.check_write(request, principal, request.headers.get("X-CSRF-Token"))
            await self._check_action(action, request, principal)

        return check

    def _json_endpoint(self, action: Action) -> Callable[..., Awaitable[Response]]:
        async def submit(request: Request, body: ActionBody, **_: str) -> Response:
            principal = await self.identify(request)
            outcome = await self.perform(action, request, principal, body)
            answer = OutcomeBody(
                accepted=outcome.accepted, sentence=outcome.sentence, details=dict(outcome.details)
            )
            return JSONResponse(answer.model_dump(mode="json"), 200 if outcome.accepted else 409)

        named = [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=str) for name in compile_path(action.path)[2]
        ]
        submit.__signature__ = Signature(  # type: ignore[attr-defined] # what FastAPI reads
            [
                Parameter("request", Parameter.POSITIONAL_OR_KEYWORD, annotation=Request),
                Parameter("body", Parameter.POSITIONAL_OR_KEYWORD, annotation=Annotated[action.body, Body()]),
                *named,
            ]
        )
        return submit

    async def perform(
        self, action: Action, request: Request, principal: Principal, body: ActionBody
    ) -> Outcome:
        """Perform an action. It is recorded before it is tried, and again when its end is known."""
        parameters = {name: str(value) for name, value in request.path_params.items()}
        subject = action.subject(parameters, body)
        called = CalledAction(principal, address_of(request), action.name, subject, body.reason)
        record_id = await self._audit.begin(called)
        try:
            outcome, end = await self._try(action, principal, parameters, body)
        except Exception:
            await self._audit.complete(
                record_id, AuditOutcome.FAILED, "an error of the console; its log has it"
            )
            raise
        await self._audit.complete(record_id, end, outcome.sentence)
        if outcome.accepted:
            self.hub.publish_everything()  # a command has no event of its own for other readers
        return outcome

    async def _try(
        self, action: Action, principal: Principal, path: Mapping[str, str], body: ActionBody
    ) -> tuple[Outcome, AuditOutcome]:
        if action.needs_reason and not body.reason:
            sentence = "expected a reason for the audit log, got none; write one"
            return Outcome(accepted=False, sentence=sentence), AuditOutcome.REFUSED
        try:
            outcome = await action.perform(
                ActionRequest(console=self.console, principal=principal, path=path, body=body)
            )
        except CommandError as error:
            failures = [error]
        except Exception as error:
            failures = find_failures(error)
            if not failures:
                raise
        else:
            return outcome, AuditOutcome.ACCEPTED if outcome.accepted else AuditOutcome.REFUSED
        is_away = any(failure.code is ExitCode.UNREACHABLE for failure in failures)
        end = AuditOutcome.FAILED if is_away else AuditOutcome.REFUSED
        return Outcome(accepted=False, sentence="; ".join(map(str, failures))), end

    async def _check_action(self, action: Action, request: Request, principal: Principal) -> None:
        """Raise AccessRefused, and record it, if the role does not allow the action, whatever its body
        says."""
        if principal.role.allows(action.role):
            return
        subject = " ".join(str(value) for value in request.path_params.values())
        sentence = describe_lack(principal, action.role, action.name)
        called = CalledAction(principal, address_of(request), action.name, subject, "")
        await self._audit.complete(await self._audit.begin(called), AuditOutcome.FORBIDDEN, sentence)
        raise AccessRefused(sentence)

    # -- errors ----------------------------------------------------------------------------------------------

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
        if request.method == "POST" and request.headers.get("HX-Request") == "true":
            return HTMLResponse(
                self.renderer.notice(Notice(problem.sentence, accepted=False)), problem.status
            )
        try:
            reader = await self.reader(request)
        except AccessRefused:
            return Response(problem.sentence, problem.status, media_type="text/plain")
        view = View(
            template="pages/problem.html",
            title=problem.title,
            context={"problem": problem},
            status=problem.status,
        )
        rendering = Rendering(page=None, view=view, reader=reader, now=datetime.now(UTC), url=url_of(request))
        is_part = request.headers.get("HX-Request") == "true"
        render = self.renderer.content if is_part else self.renderer.page
        return HTMLResponse(render(rendering), problem.status)


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as its reader sees it."""

    status: int
    title: str
    sentence: str
    what_to_do: str = ""


def _describe(error: Exception) -> Problem:
    match error:
        case PageNotFound() | NothingFound():
            problem = Problem(404, "Not found", str(error))
        case BadQuery() | CommandError(code=ExitCode.USAGE):
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
            sentence = "An error of the console; its log has it."
            problem = Problem(500, "This page failed", sentence, "Try again.")
    return problem


def _check_role(principal: Principal, wanted: Role, what: str) -> None:
    if not principal.role.allows(wanted):
        raise AccessRefused(describe_lack(principal, wanted, what))


# -- requests ------------------------------------------------------------------------------------------------


def url_of(request: Request) -> str:
    """Path and query of a request."""
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


def zone_of(request: Request) -> ZoneInfo:
    """The reader's zone by its cookie; UTC without."""
    name = request.cookies.get("zone", "")
    try:
        return ZoneInfo(name) if name and len(name) < 64 else _UTC
    except (KeyError, ValueError, OSError):  # no zone, or no name of one
        return _UTC


def _write_notice(notice: Notice) -> str:
    text = json.dumps([notice.accepted, notice.sentence[:_MAX_NOTICE]], ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode()


def _read_notice(request: Request) -> Notice | None:
    text = request.cookies.get(_NOTICE_COOKIE)
    if not text:
        return None
    try:
        accepted, sentence = json.loads(base64.urlsafe_b64decode(text))
    except (ValueError, binascii.Error):
        return None
    return Notice(sentence, bool(accepted)) if isinstance(sentence, str) else None
