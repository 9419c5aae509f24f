"""Actions on a schedule: pause, resume, trigger, remove."""

from collections.abc import Mapping

from warrener.web.access.roles import Role
from warrener.web.action import Action, ActionBody, ActionRequest, Outcome
from warrener.web.commands import REPLY_TIMEOUT


async def pause(request: ActionRequest) -> Outcome:
    """Skip the ticks of a schedule until it is resumed."""
    name, why = request.path["name"], request.body.reason or "requested"
    client = await request.console.client()
    await client.pause_schedule(name, why, reply_timeout=REPLY_TIMEOUT)
    return Outcome(accepted=True, sentence=f"{name} is paused: its ticks are skipped until it is resumed")


async def resume(request: ActionRequest) -> Outcome:
    """Resume a paused schedule."""
    name = request.path["name"]
    client = await request.console.client()
    await client.resume_schedule(name, request.body.reason or "requested", reply_timeout=REPLY_TIMEOUT)
    return Outcome(accepted=True, sentence=f"{name} is resumed, from its next tick on")


async def trigger(request: ActionRequest) -> Outcome:
    """Request the job of a schedule now, beside its ticks."""
    name = request.path["name"]
    client = await request.console.client()
    job_id = await client.trigger_schedule(
        name, request.body.reason or "requested", reply_timeout=REPLY_TIMEOUT
    )
    return Outcome(
        accepted=True,
        sentence=f"{name} is triggered: its job is {str(job_id)[-8:]}",
        details={"job_id": str(job_id)},
    )


async def remove(request: ActionRequest) -> Outcome:
    """Delete a schedule; its history stays."""
    name = request.path["name"]
    client = await request.console.client()
    await client.remove_schedule(name, request.body.reason or "requested", reply_timeout=REPLY_TIMEOUT)
    return Outcome(accepted=True, sentence=f"{name} is removed; its history stays", location="/schedules")


def _name(path: Mapping[str, str], _: ActionBody) -> str:
    return path["name"]


ACTIONS = tuple(
    Action(
        name=f"schedule.{verb}",
        path=f"/schedules/{{name}}/{verb}",
        role=role,
        body=ActionBody,
        subject=_name,
        perform=perform,
    )
    for verb, role, perform in (
        ("pause", Role.OPERATOR, pause),
        ("resume", Role.OPERATOR, resume),
        ("trigger", Role.OPERATOR, trigger),
        ("remove", Role.ADMIN, remove),
    )
)
