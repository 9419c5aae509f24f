"""Actions on jobs: cancel, redrive and request. Each is a command to a service, through the broker."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, cast
from urllib.parse import parse_qsl
from uuid import UUID

from pydantic import BeforeValidator, Field, model_validator

from warrener.web.access.roles import Role
from warrener.web.action import Action, ActionBody, ActionRequest, Outcome
from warrener.web.api.job import find_row
from warrener.web.api.jobs import MAX_BULK, JobsQuery, find_bulk
from warrener.web.argument_fields import PREFIX, ArgumentTextInvalid, fields_of, read_arguments
from warrener.web.commands import cancel_job, json_object, start_redrive
from warrener.web.masked_rows import restore_hidden
from warrener_client import Client, ClientError, JobSpec, RequestRejected, ResultTimeout
from warrener_contracts.events import DeadLetterSelection, JobRedriveRequestedData
from warrener_contracts.state_machine import TERMINAL, JobState

_AT_ONCE = 100
_REJECTION_TIMEOUT = 0.5  # seconds; a running scheduler rejects a request within this time
_MAX_REFUSALS = 20
NOT_OVER = frozenset(JobState) - TERMINAL
DEAD = frozenset({JobState.DEAD})


def _one_or_more(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class CancelJobBody(ActionBody):
    """Cancel a job; with `tree` also its child jobs, present and future."""

    tree: bool = False


class RedriveJobBody(ActionBody):
    """Request a dead job again. `edits`: a JSON merge patch of its arguments."""

    edits: Annotated[dict[str, Any], BeforeValidator(json_object)] = Field(default_factory=dict[str, Any])
    queue: str | None = None


class BulkJobsBody(ActionBody):
    """Jobs by their ids, or all that match the filters of a list: `query` is its query string."""

    job_ids: Annotated[list[UUID], BeforeValidator(_one_or_more), Field(max_length=MAX_BULK)] = Field(
        default_factory=list[UUID]
    )
    query: str = ""


class RequestJobBody(ActionBody):
    """A request for a job. A form gives each argument as a field `argument.NAME`, in place of `arguments`."""

    job_type: str = Field(min_length=1, max_length=120)
    arguments: Annotated[dict[str, Any], BeforeValidator(json_object)] = Field(default_factory=dict[str, Any])
    fields: dict[str, str] | None = None
    again: str | None = Field(
        default=None, description="A job whose arguments stand in place of those that are hidden."
    )
    id: str | None = Field(default=None, description="Id of the request; the same id is the same job.")
    idempotency_key: str | None = None
    queue: str | None = None
    delay: str | None = Field(default=None, description="Delay before the first attempt: 90s, 10m, PT2H.")

    @model_validator(mode="before")
    @classmethod
    def _gather_fields(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        body = dict(cast("Mapping[str, Any]", given))
        named = {name.removeprefix(PREFIX): body.pop(name) for name in [*body] if name.startswith(PREFIX)}
        return body | {"fields": named} if named else body


# -- one job -----------------------------------------------------------------------------------------------


async def _cancel(request: ActionRequest) -> Outcome:
    body = cast("CancelJobBody", request.body)
    job_id = (await find_row(request.console, request.path["job_id"])).job_id
    client = await request.console.client()
    detail = await cancel_job(client, job_id, body.reason, tree=body.tree)
    sentence = f"cancelled {job_id}{' with its child jobs' if body.tree else ''}"
    return Outcome(accepted=True, sentence=f"{sentence}: {detail}" if detail else sentence)


async def _redrive(request: ActionRequest) -> Outcome:
    body = cast("RedriveJobBody", request.body)
    row = await find_row(request.console, request.path["job_id"])
    if row.state is not JobState.DEAD:
        return Outcome(
            accepted=False,
            sentence=f"expected a dead job, got one that is {row.state.value}: request it again instead",
        )
    data = JobRedriveRequestedData(
        selection=DeadLetterSelection(job_ids=(row.job_id,)),
        edits=body.edits,
        queue=body.queue or None,
        by=request.principal.name,
        reason=body.reason,
    )
    return await start_redrive(request.console, data, follow=False)


# -- many jobs ---------------------------------------------------------------------------------------------


async def _selected(request: ActionRequest, states: frozenset[JobState]) -> tuple[list[UUID], str]:
    """The jobs of a bulk action, and a word about those that are left out."""
    body = cast("BulkJobsBody", request.body)
    if body.job_ids or not body.query:
        return body.job_ids, ""
    query = JobsQuery.parse(dict(parse_qsl(body.query.removeprefix("?"))))
    found, is_all = await find_bulk(request.console, query, states)
    return found, "" if is_all else f"; more may match: these were the newest {len(found):,} that were found"


def _nothing_selected(what: str) -> Outcome:
    return Outcome(accepted=False, sentence=f"expected {what}, got none; tick some, or change the filters")


async def _cancel_many(request: ActionRequest) -> Outcome:
    job_ids, rest = await _selected(request, NOT_OVER)
    if not job_ids:
        return _nothing_selected("jobs that are not over")
    client = await request.console.client()
    answers = await _cancel_each(client, job_ids, request.body.reason)
    refused = {str(job_id): answer for job_id, answer in zip(job_ids, answers, strict=True) if answer}
    done = len(job_ids) - len(refused)
    sentence = f"cancelled {done:,} of {len(job_ids):,} jobs{rest}"
    if refused:
        why, count = Counter(refused.values()).most_common(1)[0]
        sentence += f"; {count:,} refused: {why}"
    shown = dict([*refused.items()][:_MAX_REFUSALS])
    return Outcome(accepted=done > 0, sentence=sentence, details={"cancelled": done, "refused": shown})


async def _cancel_each(client: Client, job_ids: Sequence[UUID], reason: str) -> list[str]:
    """Cancel jobs, some at once; returns for each why it was refused, empty if it was not."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def cancel(job_id: UUID) -> str:
        async with slots:
            try:
                await cancel_job(client, job_id, reason)
            except ClientError as error:
                return str(error)
        return ""

    return await asyncio.gather(*map(cancel, job_ids))


async def _redrive_many(request: ActionRequest) -> Outcome:
    job_ids, rest = await _selected(request, DEAD)
    if not job_ids:
        return _nothing_selected("dead jobs")
    data = JobRedriveRequestedData(
        selection=DeadLetterSelection(job_ids=tuple(job_ids)),
        by=request.principal.name,
        reason=request.body.reason,
    )
    outcome = await start_redrive(request.console, data)
    return replace(outcome, sentence=f"{outcome.sentence}{rest}")


# -- a new job ---------------------------------------------------------------------------------------------


async def _request(request: ActionRequest) -> Outcome:
    body = cast("RequestJobBody", request.body)
    try:
        arguments = await _arguments(request, body)
    except ArgumentTextInvalid as error:
        return Outcome(accepted=False, sentence=str(error))
    spec = JobSpec(
        body.job_type,
        arguments,
        id=body.id,
        idempotency_key=body.idempotency_key,
        queue=body.queue,
        delay=body.delay,
    )
    client = await request.console.client()
    job = (await client.request_batch([spec]))[0]
    try:
        await job.outcome(timeout=_REJECTION_TIMEOUT)
    except RequestRejected as rejection:
        return Outcome(accepted=False, sentence=str(rejection))
    except ResultTimeout:
        pass
    job_id = str(job.job_id)
    return Outcome(
        accepted=True,
        sentence=f"the broker has confirmed the request for {body.job_type}: job {job_id}",
        details={"job_id": job_id, "deduplicated": job.deduplicated},
        location=f"/jobs/{job_id}",
    )


async def _arguments(request: ActionRequest, body: RequestJobBody) -> dict[str, Any]:
    """The arguments of a program, or those of a form's fields. Raises ArgumentTextInvalid."""
    arguments = await _written_arguments(request, body)
    if body.again:
        source = await find_row(request.console, body.again)
        arguments = restore_hidden(arguments, source.arguments)
    return arguments


async def _written_arguments(request: ActionRequest, body: RequestJobBody) -> dict[str, Any]:
    if body.fields is None:
        return body.arguments
    row = (await request.console.store.job_types([body.job_type])).get(body.job_type)
    schema: Mapping[str, Any] = {} if row is None else row.arguments_schema
    return read_arguments(fields_of(schema, dict.fromkeys(body.fields)), body.fields)


def _job_of_path(path: Mapping[str, str], _: ActionBody) -> str:
    return path["job_id"]


def _bulk_subject(_: Mapping[str, str], body: ActionBody) -> str:
    bulk = cast("BulkJobsBody", body)
    return f"{len(bulk.job_ids)} jobs" if bulk.job_ids else f"jobs that match {bulk.query[:200]}"


def _requested_type(_: Mapping[str, str], body: ActionBody) -> str:
    return f"job type {cast('RequestJobBody', body).job_type}"


ACTIONS = (
    Action(
        name="job.cancel",
        path="/jobs/{job_id}/cancel",
        role=Role.OPERATOR,
        body=CancelJobBody,
        subject=_job_of_path,
        perform=_cancel,
    ),
    Action(
        name="job.redrive",
        path="/jobs/{job_id}/redrive",
        role=Role.OPERATOR,
        body=RedriveJobBody,
        subject=_job_of_path,
        perform=_redrive,
    ),
    Action(
        name="jobs.cancel",
        path="/jobs/cancel",
        role=Role.OPERATOR,
        body=BulkJobsBody,
        subject=_bulk_subject,
        perform=_cancel_many,
    ),
    Action(
        name="jobs.redrive",
        path="/jobs/redrive",
        role=Role.OPERATOR,
        body=BulkJobsBody,
        subject=_bulk_subject,
        perform=_redrive_many,
    ),
    Action(
        name="job.request",
        path="/jobs",
        role=Role.OPERATOR,
        body=RequestJobBody,
        subject=_requested_type,
        perform=_request,
    ),
)
