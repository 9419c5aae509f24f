"""Incidents: what happened, since when, and how far the steps of their escalation policies are."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from warrener.web.access.masking import Masker
from warrener.web.api import ConsoleOfApp
from warrener.web.console import Console
from warrener.web.page import PageNotFound
from warrener.web.queries import read_position, write_position
from warrener_contracts.events import JsonObject
from warrener_contracts.fields import parse_duration
from warrener_contracts.json_safety import is_array, is_object
from warrener_store.incidents.rows import (
    ALL_STEPS_DONE,
    IncidentFilter,
    IncidentOccurrence,
    IncidentPosition,
    IncidentRow,
    PolicyVersionRow,
)

router = APIRouter(tags=["incidents"])

DEAD_JOBS = "job.dead"
"""The kind of incidents whose occurrences are dead jobs of one cause: its fingerprint is theirs."""
_MAX_OCCURRENCES = 50

IncidentState = Literal["open", "acknowledged", "snoozed", "failing", "closed"]
StepState = Literal["done", "next", "planned", "not needed"]


class IncidentsQuery(BaseModel):
    """The incidents to list. `after`: the `next` of the page before."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    closed: bool = False
    after: Annotated[str, Field(max_length=300)] = ""
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class IncidentSummary(BaseModel):
    """An incident in a list. `text`: what was raised last, in a line."""

    fingerprint: str
    kind: str
    subject: str
    job_type: str | None
    text: str
    times: int
    first_seen_at: datetime
    last_seen_at: datetime
    state: IncidentState
    policy: str
    step: int  # steps that are done
    next_at: datetime | None  # when a supervisor looks at it again
    acknowledged_by: str | None
    snoozed_until: datetime | None
    close_reason: str | None


class IncidentsPage(BaseModel):
    """A page of incidents, the last raised first. `next`: pass it as `after`."""

    incidents: list[IncidentSummary]
    next: str | None


class PolicyStep(BaseModel):
    """A step of an incident's policy. `at`: when it was done, or is due; `is_exact`: False if that was
    computed from the policy, which a held-up step delays."""

    number: int
    do: str
    words: str
    after: timedelta
    state: StepState
    at: datetime | None
    is_exact: bool


class ListedOccurrence(BaseModel):
    """One occurrence of an incident."""

    subject: str
    raised_at: datetime
    is_settled: bool


class IncidentDetails(BaseModel):
    """One incident."""

    summary: IncidentSummary
    sample: JsonObject
    round: int
    policy_version: str | None
    steps: list[PolicyStep]
    last_error: str | None
    failed_tries: int
    acknowledged_at: datetime | None
    closed_at: datetime | None
    occurrences: list[ListedOccurrence]  # the first raised first
    has_more: bool


async def list_incidents(console: Console, query: IncidentsQuery) -> IncidentsPage:
    """List incidents, the last raised first."""
    now = await console.now()
    which = IncidentFilter(closed=query.closed, after=_position(query.after), limit=query.limit + 1)
    rows = await console.store.escalations.incidents(which)
    shown = rows[: query.limit]
    more = len(rows) > query.limit
    return IncidentsPage(
        incidents=[_summary(row, now, console.masker) for row in shown],
        next=write_position(shown[-1].last_seen_at, shown[-1].fingerprint) if more else None,
    )


def _position(text: str) -> IncidentPosition | None:
    position = read_position(text)
    return None if position is None else IncidentPosition(*position)


def _summary(row: IncidentRow, now: datetime, masker: Masker) -> IncidentSummary:
    adoptions = row.policy_history.adoptions if row.policy_history is not None else ()
    return IncidentSummary(
        fingerprint=row.fingerprint,
        kind=row.kind,
        subject=row.subject,
        job_type=row.job_type,
        text=masker.text(_text(row.sample)),
        times=row.times,
        first_seen_at=row.first_seen_at,
        last_seen_at=row.last_seen_at,
        state=_state(row, now),
        policy=adoptions[-1].name if adoptions else "",
        step=row.step,
        next_at=row.wake_at,
        acknowledged_by=row.acknowledged_by,
        snoozed_until=row.snoozed_until,
        close_reason=row.close_reason,
    )


def _state(row: IncidentRow, now: datetime) -> IncidentState:
    if row.closed_at is not None:
        return "closed"
    if row.snoozed_until is not None and row.snoozed_until > now:
        return "snoozed"
    if row.last_error is not None:
        return "failing"
    return "open" if row.acknowledged_by is None else "acknowledged"


def _text(sample: Mapping[str, Any]) -> str:
    error: object = sample.get("error")
    if is_object(error) and error.get("type"):
        return " ".join(f"{error['type']}: {error.get('message', '')}".split())[:300]
    return " ".join(str(sample.get("text", "")).split())[:300]


async def find_incident_row(console: Console, fingerprint: str) -> IncidentRow:
    """Find an incident, open or closed. Raises PageNotFound."""
    which = IncidentFilter(fingerprints=[fingerprint], closed=True)
    rows = await console.store.escalations.incidents(which)
    if not rows:
        raise PageNotFound(
            f"expected an incident, got none with the fingerprint {fingerprint!r:.210}; look in the list"
        )
    return rows[0]


async def read_incident(console: Console, fingerprint: str) -> IncidentDetails:
    """Read one incident. Raises PageNotFound."""
    row = await find_incident_row(console, fingerprint)
    incidents, now = console.store.escalations, await console.now()
    versions = await incidents.policies() if row.policy_version else []
    found = await incidents.pending(fingerprint, ALL_STEPS_DONE + 1, _MAX_OCCURRENCES + 1)
    return IncidentDetails(
        summary=_summary(row, now, console.masker),
        sample=console.masker.value(row.sample),
        round=row.round,
        policy_version=row.policy_version,
        steps=policy_steps(row, versions),
        last_error=None if row.last_error is None else console.masker.text(row.last_error),
        failed_tries=row.failed_tries,
        acknowledged_at=row.acknowledged_at,
        closed_at=row.closed_at,
        occurrences=[_occurrence(one) for one in found[:_MAX_OCCURRENCES]],
        has_more=len(found) > _MAX_OCCURRENCES,
    )


def _occurrence(one: IncidentOccurrence) -> ListedOccurrence:
    return ListedOccurrence(
        subject=one.subject, raised_at=one.raised_at, is_settled=one.steps_done >= ALL_STEPS_DONE
    )


def policy_steps(row: IncidentRow, versions: list[PolicyVersionRow]) -> list[PolicyStep]:
    """The steps of the policy that an incident follows, with their times. Pure.

    The store has the time of the next step alone. The step before it was done that long ago as the next one
    waits; the times of earlier steps follow from the policy.
    """
    steps = _steps_of(row, versions)
    waits = [_duration(step.get("after")) for step in steps]
    times = _step_times(row, waits)
    return [
        PolicyStep(
            number=place + 1,
            do=str(step.get("do", "")),
            words=_step_words(step),
            after=waits[place],
            state=_step_state(row, place),
            at=times[place][0],
            is_exact=times[place][1],
        )
        for place, step in enumerate(steps)
    ]


def _steps_of(row: IncidentRow, versions: list[PolicyVersionRow]) -> list[Mapping[str, Any]]:
    version = next((one for one in versions if one.version == row.policy_version), None)
    policy: object = version.definition.get("policy") if version is not None else None
    steps: object = policy.get("steps") if is_object(policy) else None
    return [step for step in steps if is_object(step)] if is_array(steps) else []


def _step_times(row: IncidentRow, waits: list[timedelta]) -> list[tuple[datetime | None, bool]]:
    times: list[tuple[datetime | None, bool]] = []
    at = row.first_seen_at
    is_waiting = row.step < len(waits) and not row.failed_tries  # for the time since the step before
    for place, wait in enumerate(waits):
        at += wait
        is_exact = place == row.step
        if place == row.step and row.due_at is not None:
            at = row.due_at
        elif place == row.step - 1 and is_waiting and row.due_at is not None:
            at, is_exact = row.due_at - waits[row.step], True
        times.append((at, is_exact))
    if row.closed_at is not None:
        return [(moment if place < row.step else None, exact) for place, (moment, exact) in enumerate(times)]
    return times


def _step_state(row: IncidentRow, place: int) -> StepState:
    if place < row.step:
        return "done"
    if row.closed_at is not None:
        return "not needed"
    return "next" if place == row.step else "planned"


def _step_words(step: Mapping[str, Any]) -> str:
    words = {
        "alert": f"alert {_names(step.get('to')) or 'log'}",
        "digest": f"list it in the digest {step.get('into', 'daily')}",
        "retry": "request the dead jobs once more",
        "park": "leave the dead jobs as they are",
        "compensate": f"request {step.get('job_type')} for each dead job",
        "close": "close the incident",
    }
    do = str(step.get("do", ""))
    return words.get(do, do)


def _names(value: object) -> str:
    return ", ".join(map(str, value)) if is_array(value) else ""


def _duration(text: object) -> timedelta:
    try:
        return parse_duration(text) if isinstance(text, str) else timedelta(0)
    except ValueError:
        return timedelta(0)


@router.get("/incidents")
async def get_incidents(console: ConsoleOfApp, query: Annotated[IncidentsQuery, Query()]) -> IncidentsPage:
    """List incidents, the last raised first."""
    return await list_incidents(console, query)


@router.get("/incidents/{fingerprint:path}")
async def get_incident(console: ConsoleOfApp, fingerprint: str) -> IncidentDetails:
    """One incident with the steps of its policy."""
    return await read_incident(console, fingerprint)
