"""Actions on dead letters: redrive and drop those of one cause, stop and resume a redrive."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from pydantic import BeforeValidator, Field, ValidationError

from warrener.options import parse_policy_options
from warrener.web.access.roles import Role
from warrener.web.action import Action, ActionBody, ActionRequest, Outcome
from warrener.web.api.dead_letters import NO_CAUSE, read_redrive
from warrener.web.commands import REPLY_TIMEOUT, json_object, start_redrive
from warrener_contracts.events import (
    DeadLetterSelection,
    JobDropRequestedData,
    JobRedriveRequestedData,
    RedriveChangeRequested,
    RedriveChangeRequestedData,
)
from warrener_runtime.clock import SystemEntropy
from warrener_store.dead_letters.rows import RedriveState

_DONE = {"stop": "stopped", "resume": "resumed"}
_WANTED = {"stop": "under way", "resume": "stopped"}
_CHANGEABLE = {
    "stop": (RedriveState.CANARY, RedriveState.ROLLING),
    "resume": (RedriveState.STOPPED,),
}


class RedriveCauseBody(ActionBody):
    """Request the dead jobs of one cause again, a canary of them first."""

    dry_run: bool = Field(default=False, description="Checks and counts, and requests nothing.")
    canary: int = Field(default=10, ge=0, le=1000, description="Jobs that must end before all others.")
    rate: float = Field(default=20.0, gt=0, le=1000, description="Jobs a second after the canary.")
    max_failures: int = Field(default=0, ge=0, description="Jobs that may die again before it stops.")
    limit: int | None = Field(default=None, ge=1, description="Maximum number of jobs.")
    edits: Annotated[dict[str, Any], BeforeValidator(json_object)] = Field(
        default_factory=dict[str, Any], description="A JSON merge patch of each job's arguments."
    )
    queue: str | None = Field(default=None, description="None: the queue of each dead job.")
    policy: str | None = Field(
        default=None, description="JSON: policy fields that replace those of the type."
    )
    even_if_succeeded: bool = Field(default=False, description="Also jobs whose request has succeeded since.")


class DropCauseBody(ActionBody):
    """Mark the dead letters of one cause as never to be redriven."""


class ChangeRedriveBody(ActionBody):
    """Stop or resume a redrive."""


def _selection(request: ActionRequest) -> DeadLetterSelection | Outcome:
    fingerprint = request.path["fingerprint"]
    if fingerprint == NO_CAUSE:
        return Outcome(
            accepted=False,
            sentence="expected a cause with a fingerprint, got deaths without one: "
            "redrive or drop their jobs one by one",
        )
    try:
        return DeadLetterSelection(fingerprint=fingerprint)
    except ValidationError:
        return Outcome(
            accepted=False,
            sentence="expected the fingerprint of a cause, twelve hexadecimal digits, "
            f"got {fingerprint!r:.40}",
        )


async def _redrive(request: ActionRequest) -> Outcome:
    body = cast("RedriveCauseBody", request.body)
    selection = _selection(request)
    if isinstance(selection, Outcome):
        return selection
    data = JobRedriveRequestedData(
        selection=selection,
        limit=body.limit,
        edits=body.edits,
        queue=body.queue or None,
        policy=parse_policy_options(body.policy),
        canary=body.canary,
        rate=body.rate,
        max_failures=body.max_failures,
        even_if_succeeded=body.even_if_succeeded,
        dry_run=body.dry_run,
        by=request.principal.name,
        reason=body.reason,
    )
    return await start_redrive(request.console, data)


async def _drop(request: ActionRequest) -> Outcome:
    selection = _selection(request)
    if isinstance(selection, Outcome):
        return selection
    data = JobDropRequestedData(selection=selection, by=request.principal.name, reason=request.body.reason)
    return await start_redrive(request.console, data)


async def _change(request: ActionRequest, change: Literal["stop", "resume"]) -> Outcome:
    try:
        redrive_id = UUID(request.path["redrive_id"])
    except ValueError:
        return Outcome(
            accepted=False, sentence=f"expected the id of a redrive, got {request.path['redrive_id']!r:.60}"
        )
    row = (await read_redrive(request.console, redrive_id)).redrive
    if row.state not in _CHANGEABLE[change]:
        return Outcome(
            accepted=False,
            sentence=f"expected a redrive that is {_WANTED[change]}, got one that is {row.state.value}",
        )
    client = await request.console.client()
    data = RedriveChangeRequestedData(
        redrive_id=redrive_id, change=change, by=request.principal.name, reason=request.body.reason
    )
    event = RedriveChangeRequested(
        id=str(SystemEntropy().new_id()),
        source=client.source,
        time=await request.console.now(),
        subject=str(redrive_id),
        data=data,
    )
    detail = await client.send(event, reply_timeout=REPLY_TIMEOUT)
    sentence = f"{_DONE[change]} redrive {str(redrive_id)[-8:]}"
    return Outcome(accepted=True, sentence=f"{sentence}: {detail}" if detail else sentence)


async def _stop(request: ActionRequest) -> Outcome:
    return await _change(request, "stop")


async def _resume(request: ActionRequest) -> Outcome:
    return await _change(request, "resume")


def _cause(path: Mapping[str, str], _: ActionBody) -> str:
    return path["fingerprint"]


def _redrive_subject(path: Mapping[str, str], _: ActionBody) -> str:
    return path["redrive_id"]


ACTIONS = (
    Action(
        name="dead-letters.redrive",
        path="/dead-letters/{fingerprint}/redrive",
        role=Role.OPERATOR,
        body=RedriveCauseBody,
        subject=_cause,
        perform=_redrive,
    ),
    Action(
        name="dead-letters.drop",
        path="/dead-letters/{fingerprint}/drop",
        role=Role.ADMIN,
        body=DropCauseBody,
        subject=_cause,
        perform=_drop,
        needs_reason=True,
    ),
    Action(
        name="redrive.stop",
        path="/redrives/{redrive_id}/stop",
        role=Role.OPERATOR,
        body=ChangeRedriveBody,
        subject=_redrive_subject,
        perform=_stop,
    ),
    Action(
        name="redrive.resume",
        path="/redrives/{redrive_id}/resume",
        role=Role.OPERATOR,
        body=ChangeRedriveBody,
        subject=_redrive_subject,
        perform=_resume,
    ),
)
