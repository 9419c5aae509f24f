"""The form that requests a job, also again, and the action that it sends."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field, model_validator

from warrener.operations.masking import restore_hidden
from warrener.operations.noun import ActionBody, Outcome, Verb, VerbCall
from warrener.operations.roles import Role
from warrener.options import read_object
from warrener.render.argument_fields import (
    PREFIX,
    ArgumentField,
    ArgumentTextInvalid,
    fields_of,
    read_arguments,
)
from warrener.selection import find_job
from warrener.web.page import PageRequest, View, page
from warrener.web.site import Action
from warrener_client import JobSpec, RequestRejected, ResultTimeout, ResultUnreadable
from warrener_contracts.private_payloads import MARK
from warrener_store import Store

_REJECTION_TIMEOUT = 0.5  # seconds; a running scheduler rejects a request within this time
_SPEC_FIELDS = {"id", "idempotency_key", "queue", "delay"}


class RequestJobBody(ActionBody):
    """A request for a job. A form gives each argument as a field `argument.NAME`, in place of `arguments`."""

    job_type: str = Field(min_length=1, max_length=120)
    arguments: Annotated[dict[str, Any], BeforeValidator(read_object)] = Field(default_factory=dict[str, Any])
    fields: dict[str, str] | None = None
    again: str | None = Field(
        default=None, description="A job whose arguments stand in place of those that are hidden."
    )
    id: str | None = Field(default=None, description="Id of the request; the same id is the same job.")
    idempotency_key: str | None = None
    queue: str | None = None
    delay: str | None = Field(default=None, description="Delay before the first attempt: 90s, 10m, PT2H.")

    @property
    def subject(self) -> str:
        """The job type, for the audit log."""
        return f"job type {self.job_type}"

    @model_validator(mode="before")
    @classmethod
    def _gather_fields(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        body = dict(cast("Mapping[str, Any]", given))
        named = {name.removeprefix(PREFIX): body.pop(name) for name in [*body] if name.startswith(PREFIX)}
        return body | {"fields": named} if named else body


@page("/jobs/new", role=Role.OPERATOR, refresh=None)
async def show_job_request(request: PageRequest) -> View:
    """Show the form, filled with the arguments of the job that is requested again."""
    console, query = request.console, request.query
    source = await find_job(console.store, query["from"]) if query.get("from") else None
    name = query.get("type") or (source.job_type if source else "")
    types = await console.store.job_types()
    chosen = types.get(name)
    is_again = source is not None and source.job_type == name
    masker = (await console.learn()).of(name)
    values: dict[str, Any] = masker.value(source.arguments) if source and is_again else {}
    fields: list[ArgumentField] = [] if chosen is None else fields_of(chosen.arguments_schema, values)
    filled = values or dict.fromkeys([one.name for one in fields])
    context: dict[str, Any] = {
        "types": sorted(types.values(), key=lambda row: row.name),
        "chosen": chosen,
        "name": name,
        "source": source,
        "fields": fields,
        "prefix": PREFIX,
        "as_json": query.get("as") == "json" or MARK in values or (chosen is None and bool(name)),
        "text": json.dumps(filled, indent=2, ensure_ascii=False),
    }
    return View("Request a job" if source is None else "Request a job again", context)


async def request_job(call: VerbCall[RequestJobBody]) -> Outcome:
    """Request the job, and wait a moment for its rejection."""
    body = call.body
    try:
        arguments = await _arguments(call.backend.store, body)
    except ArgumentTextInvalid as error:
        return Outcome(accepted=False, sentence=str(error))
    spec = JobSpec(body.job_type, arguments, **body.model_dump(include=_SPEC_FIELDS))
    client = await call.backend.client()
    job = (await client.request_batch([spec]))[0]
    try:
        await job.outcome(timeout=_REJECTION_TIMEOUT)
    except RequestRejected as rejection:
        return Outcome(accepted=False, sentence=str(rejection))
    except (ResultTimeout, ResultUnreadable):
        pass
    job_id = str(job.job_id)
    return Outcome(
        accepted=True,
        sentence=f"the broker has confirmed the request for {body.job_type}: job {job_id}",
        details={"job_id": job_id, "deduplicated": job.deduplicated},
        location=f"/jobs/{job_id}",
    )


async def _arguments(store: Store, body: RequestJobBody) -> dict[str, Any]:
    """The arguments of a program, or those of a form's fields. Raises ArgumentTextInvalid."""
    arguments = body.arguments
    if body.fields is not None:
        row = (await store.job_types([body.job_type])).get(body.job_type)
        schema: Mapping[str, Any] = {} if row is None else row.arguments_schema
        arguments = read_arguments(fields_of(schema, dict.fromkeys(body.fields)), body.fields)
    if body.again:
        arguments = restore_hidden(arguments, (await find_job(store, body.again)).arguments)
    return arguments


REQUEST = Action("job.request", "/jobs", Verb(word="request", body=RequestJobBody, perform=request_job))
