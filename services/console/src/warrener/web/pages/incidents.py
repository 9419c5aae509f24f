"""The pages of incidents, and what people do about one."""

from collections.abc import Collection, Mapping
from datetime import timedelta

from warrener.errors import CommandError, ExitCode
from warrener.web.access.roles import Role
from warrener.web.action import Action, ActionBody, ActionRequest, Outcome
from warrener.web.api.incidents import (
    DEAD_JOBS,
    IncidentsQuery,
    IncidentState,
    StepState,
    list_incidents,
    read_incident,
)
from warrener.web.commands import REPLY_TIMEOUT
from warrener.web.page import Page, PageRequest, View
from warrener.web.queries import read_query
from warrener_contracts.fields import parse_duration

TONES: dict[IncidentState, str] = {
    "open": "error",
    "failing": "error",
    "acknowledged": "live",
    "snoozed": "soft",
    "closed": "good",
}
STEP_TONES: dict[StepState, str] = {
    "done": "good",
    "next": "live",
    "planned": "soft",
    "not needed": "soft",
}


async def show_incidents(request: PageRequest) -> View:
    """Show the incidents, the last raised first."""
    query = read_query(IncidentsQuery, request.query)
    page = await list_incidents(request.console, query)
    context = {"incidents": page, "tones": TONES, "closed": query.closed, "query": request.query}
    return View(template="pages/incidents.html", title="Incidents", context=context)


async def show_incident(request: PageRequest) -> View:
    """Show one incident with the steps of its policy."""
    found = await read_incident(request.console, request.path["fingerprint"])
    context = {
        "incident": found,
        "one": found.summary,
        "tones": TONES,
        "step_tones": STEP_TONES,
        "of_dead_jobs": found.summary.kind == DEAD_JOBS,
    }
    return View(template="pages/incident.html", title=f"Incident {found.summary.kind}", context=context)


def topics(_: PageRequest) -> Collection[str]:
    """All incidents."""
    return ("incidents",)


# -- actions -----------------------------------------------------------------------------------------------


class SnoozeBody(ActionBody):
    """Time without steps, such as 30m or 8h; 0s ends the snooze."""

    length: str


async def acknowledge(request: ActionRequest) -> Outcome:
    """Stop further alerts; other steps go on."""
    fingerprint, who = request.path["fingerprint"], request.principal.name
    client = await request.console.client()
    await client.acknowledge_incident(fingerprint, by=who, reply_timeout=REPLY_TIMEOUT)
    return Outcome(accepted=True, sentence=f"acknowledged by {who}: no further alerts, other steps go on")


async def snooze(request: ActionRequest) -> Outcome:
    """Take no step for a while."""
    assert isinstance(request.body, SnoozeBody)
    length = read_length(request.body.length, "length")
    until = await request.console.now() + length
    client = await request.console.client()
    await client.snooze_incident(
        request.path["fingerprint"], until, by=request.principal.name, reply_timeout=REPLY_TIMEOUT
    )
    words = f"snoozed until {until:%Y-%m-%d %H:%M:%S} UTC" if length else "the snooze is over"
    return Outcome(accepted=True, sentence=words, details={"until": until.isoformat()})


async def close(request: ActionRequest) -> Outcome:
    """Close an incident; raised again, it begins at the first step."""
    client = await request.console.client()
    await client.close_incident(
        request.path["fingerprint"],
        by=request.principal.name,
        reason=request.body.reason or "requested",
        reply_timeout=REPLY_TIMEOUT,
    )
    return Outcome(accepted=True, sentence="closed; raised again, it begins at its first step")


def read_length(text: str, name: str) -> timedelta:
    """Parse a duration of a form. Raises CommandError."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise CommandError(f"{name}: {error}", code=ExitCode.USAGE) from error


def _fingerprint(path: Mapping[str, str], _: ActionBody) -> str:
    return path["fingerprint"]


_PATH = "/incidents/{fingerprint:path}"

PAGES = (
    Page(name="incidents", path="/incidents", section="incidents", view=show_incidents, topics=topics),
    Page(name="incident", path=_PATH, section="incidents", view=show_incident, topics=topics),
)
ACTIONS = (
    Action(
        name="incident.acknowledge",
        path=f"{_PATH}/acknowledge",
        role=Role.OPERATOR,
        body=ActionBody,
        subject=_fingerprint,
        perform=acknowledge,
    ),
    Action(
        name="incident.snooze",
        path=f"{_PATH}/snooze",
        role=Role.OPERATOR,
        body=SnoozeBody,
        subject=_fingerprint,
        perform=snooze,
    ),
    Action(
        name="incident.close",
        path=f"{_PATH}/close",
        role=Role.OPERATOR,
        body=ActionBody,
        subject=_fingerprint,
        perform=close,
    ),
)
