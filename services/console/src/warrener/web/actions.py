"""Actions as forms of pages and programs send them: checked, recorded in the audit log, and performed."""

from collections.abc import Awaitable, Callable
from inspect import Parameter, Signature
from typing import Annotated, Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import structlog
from fastapi import APIRouter, Body, Depends, Request
from pydantic import ValidationError
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import compile_path

from warrener.errors import CommandError, ExitCode, find_failures
from warrener.operations.noun import TEXTS, ActionBody, Outcome, OutcomeBody, VerbCall
from warrener.operations.roles import Principal
from warrener.options import field_problem
from warrener.web.access.guard import AccessRefused, Guard, address_of, check_role, identify, own_origin
from warrener.web.access.origins import origin_of, safe_path
from warrener.web.console import Console
from warrener.web.live.hub import Hub
from warrener.web.rendering import NOTICE_COOKIE, Notice, Renderer
from warrener.web.site import Action, Site
from warrener_store import StoreError
from warrener_store.audit.rows import AuditOutcome, AuditRecord

_log = structlog.stdlib.get_logger(__name__)

REPLY_TIMEOUT = 5.0  # seconds to wait for the service that carries an action out; it is carried out later too
_MAX_SUBJECT, _MAX_REASON, _MAX_SENTENCE = 500, 500, 1000  # characters of the audit log


class ActionServer:
    """Answers the actions of a site. One that cannot be recorded is not tried."""

    def __init__(self, console: Console, guard: Guard, renderer: Renderer, hub: Hub) -> None:
        self._console, self._guard, self._renderer, self._hub = console, guard, renderer, hub

    def form_endpoint(self, action: Action) -> Callable[[Request], Awaitable[Response]]:
        """Make the handler of an action's form."""

        async def submit(request: Request) -> Response:
            await identify(self._guard, request)  # before a body of nobody is parsed
            form = await request.form()
            fields: dict[str, Any] = {}
            for name in form:
                values = [value for value in form.getlist(name) if isinstance(value, str)]
                fields[name] = values[0] if len(values) == 1 else values
            token = fields.pop("csrf_token", None) or request.headers.get("X-CSRF-Token")
            await self._check(action, request, token if isinstance(token, str) else None)
            try:
                given = {name: value for name, value in fields.items() if value != ""}
                body = action.verb.body.model_validate(given, context=TEXTS)
            except ValidationError as error:
                wrong = "; ".join(map(field_problem, error.errors(include_url=False)))
                outcome = Outcome(accepted=False, sentence=f"refused: {wrong}")
            else:
                outcome = await self._perform(action, request, body)
            return self._answer_form(request, outcome)

        return submit

    def _answer_form(self, request: Request, outcome: Outcome) -> Response:
        notice = Notice(outcome.sentence, outcome.accepted)
        if request.headers.get("HX-Request") == "true" and outcome.location is None:
            headers = {"HX-Trigger": "warrener:refresh", "Cache-Control": "no-store"}
            return HTMLResponse(self._renderer.notice(notice), headers=headers)
        origin = own_origin(request, self._console.settings.console_url)
        where = outcome.location or _path_of_referer(request, origin)
        if request.headers.get("HX-Request") == "true":
            response = Response(status_code=200, headers={"HX-Redirect": where})
        else:
            response = RedirectResponse(where, 303)
        is_https = origin.startswith("https:")
        response.set_cookie(
            NOTICE_COOKIE, notice.encode(), max_age=60, httponly=True, samesite="strict", secure=is_https
        )
        return response

    def router(self, site: Site) -> APIRouter:
        router = APIRouter(tags=["actions"])
        for action in site.actions.values():
            router.add_api_route(
                action.path,
                self._json_endpoint(action),
                methods=["POST"],
                name=action.name,
                summary=action.name,
                description=f"Role: {action.verb.role}.",
                dependencies=[Depends(self._checked(action))],
                response_model=OutcomeBody,
                responses={409: {"model": OutcomeBody, "description": "Refused"}},
            )
        return router

    def _checked(self, action: Action) -> Callable[[Request], Awaitable[None]]:
        """Make the dependency of an action's API route, which runs before its body is read."""

        async def check(request: Request) -> None:
            await self._check(action, request, request.headers.get("X-CSRF-Token"))

        return check

    def _json_endpoint(self, action: Action) -> Callable[..., Awaitable[Response]]:
        async def submit(request: Request, body: ActionBody, **_: str) -> Response:
            outcome = await self._perform(action, request, body)
            details = dict(outcome.details)
            answer = OutcomeBody(accepted=outcome.accepted, sentence=outcome.sentence, details=details)
            return JSONResponse(answer.model_dump(mode="json"), 200 if outcome.accepted else 409)

        kinds = {"request": Request, "body": Annotated[action.verb.body, Body()]}
        kinds |= dict.fromkeys(compile_path(action.path)[2], str)
        submit.__signature__ = Signature(  # type: ignore[attr-defined] # what FastAPI reads
            [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in kinds.items()]
        )
        return submit

    async def _check(self, action: Action, request: Request, csrf_token: str | None) -> None:
        """Raise AccessRefused for a request of another site, and for a role that does not allow the action,
        whatever its body says; the latter is recorded."""
        principal = await identify(self._guard, request)
        await self._guard.check_write(request, principal, csrf_token)
        try:
            check_role(principal, action.verb.role, action.name)
        except AccessRefused as error:
            subject = " ".join(str(value) for value in request.path_params.values())
            record_id = await self._record(action, request, principal, subject, "")
            await self._complete(record_id, AuditOutcome.FORBIDDEN, error.sentence)
            raise

    async def _perform(self, action: Action, request: Request, body: ActionBody) -> Outcome:
        """Perform an action. It is recorded before it is tried, and again when its end is known."""
        principal = await identify(self._guard, request)
        key = next(map(str, request.path_params.values()), "")
        record_id = await self._record(action, request, principal, key or body.subject, body.reason)
        call = VerbCall(
            backend=self._console, key=key, by=principal.name, body=body, reply_timeout=REPLY_TIMEOUT
        )
        try:
            outcome, end = await _try(action, call)
        except Exception:
            sentence = "an error of the console; its log has it"
            await self._complete(record_id, AuditOutcome.FAILED, sentence)
            raise
        await self._complete(record_id, end, outcome.sentence)
        if outcome.accepted:
            self._hub.publish_everything()  # a command has no event of its own for other readers
        return outcome

    async def _record(
        self, action: Action, request: Request, principal: Principal, subject: str, reason: str
    ) -> UUID:
        """Record an action before it is tried. Raises StoreError."""
        record = AuditRecord(
            record_id=uuid4(),
            recorded_at=await self._console.now(),
            actor=principal.name,
            role=principal.role.value,
            method=principal.method,
            address=address_of(request),
            action=action.name,
            subject=subject[:_MAX_SUBJECT],
            reason=reason[:_MAX_REASON],
        )
        await self._console.store.record_action(record)
        return record.record_id

    async def _complete(self, record_id: UUID, outcome: AuditOutcome, sentence: str) -> None:
        """Record the end of an action. If the store is away meanwhile, the record stays `requested`, and
        a log line has the end: the action itself is over, so its answer is not replaced by an error."""
        try:
            now = await self._console.now()
            await self._console.store.complete_action(record_id, outcome, sentence[:_MAX_SENTENCE], now)
        except StoreError as error:
            _log.error(
                "The end of an action was not recorded.",
                action="console.audit_incomplete",
                record_id=str(record_id),
                outcome=outcome.value,
                sentence=sentence,
                reason=str(error),
            )


async def _try(action: Action, call: VerbCall[Any]) -> tuple[Outcome, AuditOutcome]:
    if action.needs_reason and not call.body.reason:
        sentence = "expected a reason for the audit log, got none; write one"
        return Outcome(accepted=False, sentence=sentence), AuditOutcome.REFUSED
    try:
        outcome = await action.verb.carry_out(call)
    except Exception as error:
        failures = [error] if isinstance(error, CommandError) else find_failures(error)
        if not failures:
            raise
    else:
        return outcome, AuditOutcome.ACCEPTED if outcome.accepted else AuditOutcome.REFUSED
    is_away = any(failure.code is ExitCode.UNREACHABLE for failure in failures)
    end = AuditOutcome.FAILED if is_away else AuditOutcome.REFUSED
    return Outcome(accepted=False, sentence="; ".join(map(str, failures))), end


def _path_of_referer(request: Request, own: str) -> str:
    """The page that a form was sent from, of this console; the overview without."""
    referer = request.headers.get("referer", "")
    if origin_of(referer) != own:
        return "/"
    parts = urlsplit(referer)
    return safe_path(f"{parts.path}?{parts.query}" if parts.query else parts.path)
