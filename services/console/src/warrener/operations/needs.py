"""Troubles that need a person: how many of each kind there are, since when, and the first of them."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, Field

from warrener.operations.agents import AgentSummary
from warrener.operations.breakers import Breaker
from warrener.operations.causes import CausesQuery, list_causes
from warrener.operations.incidents import IncidentsQuery, list_incidents
from warrener.operations.noun import Backend
from warrener.operations.queues import QueueSummary
from warrener.operations.schedules import list_overdue
from warrener_contracts.circuit_breaker import BreakerState

_MAX_SHOWN = 3
_MAX_COUNTED = 1000
_MAX_CAUSES = 100


class NeedKind(StrEnum):
    """The kinds of trouble, in the order of a page."""

    BREAKERS = "breakers"
    INCIDENTS = "incidents"
    QUEUES = "queues"
    AGENTS = "agents"
    SCHEDULES = "schedules"
    DEAD_LETTERS = "dead_letters"


class NeedSubject(BaseModel):
    """One trouble: a breaker, an incident, a queue, an agent, a schedule, or a cause of dead letters."""

    key: str = Field(description="Its name, or its fingerprint.")
    name: str
    detail: str
    since: datetime | None
    count: int = Field(description="1; of a cause: its dead letters.")


class Need(BaseModel):
    """All troubles of a kind. `is_counted`: False if there are more than `count`."""

    kind: NeedKind
    count: int
    is_counted: bool
    since: datetime | None
    subjects: list[NeedSubject] = Field(description="The first of them.")


async def read_needs(
    backend: Backend,
    breakers: Iterable[Breaker],
    agents: Iterable[AgentSummary],
    queues: Iterable[QueueSummary],
) -> list[Need]:
    """Read the troubles that nobody has acknowledged: of these breakers, agents and queues, and all others.

    A closed breaker, an agent that was drained before it ended and a queue with an agent are no trouble.
    """
    raised = await list_incidents(backend, IncidentsQuery(limit=_MAX_COUNTED))
    overdue = await list_overdue(backend, _MAX_COUNTED)
    causes = (await list_causes(backend, CausesQuery(limit=_MAX_CAUSES))).causes
    found = {
        NeedKind.BREAKERS: [
            _subject(one.name, one.since, one.reason)
            for one in breakers
            if one.state is not BreakerState.CLOSED
        ],
        NeedKind.INCIDENTS: [
            _subject(one.fingerprint, one.first_seen_at, one.text, name=f"{one.kind} of {one.about}")
            for one in raised.incidents
            if one.state in ("open", "failing")
        ],
        NeedKind.QUEUES: [
            _subject(one.name, one.oldest, f"jobs that are not over: {one.live:,}")
            for one in queues
            if one.lacks_agents
        ],
        NeedKind.AGENTS: [
            _subject(one.agent_id, one.last_seen_at, f"{one.host}, jobs that it ran: {one.running}")
            for one in agents
            if one.state == "silent" and not one.draining
        ],
        NeedKind.SCHEDULES: [
            _subject(one.name, one.overdue_since, f"{one.rule} → {one.job_type}") for one in overdue
        ],
        NeedKind.DEAD_LETTERS: [
            _subject(one.fingerprint, one.first_died_at, one.why, one.job_type, one.dead_letters)
            for one in causes
        ],
    }
    all_counted = len(causes) < _MAX_CAUSES and all(one.is_counted for one in causes)
    is_counted = {
        NeedKind.INCIDENTS: raised.next is None,
        NeedKind.SCHEDULES: len(overdue) < _MAX_COUNTED,
        NeedKind.DEAD_LETTERS: all_counted,
    }
    return [
        Need(
            kind=kind,
            count=sum(one.count for one in subjects),
            is_counted=is_counted.get(kind, True),
            since=min((one.since for one in subjects if one.since is not None), default=None),
            subjects=subjects[:_MAX_SHOWN],
        )
        for kind, subjects in found.items()
        if subjects
    ]


def _subject(key: str, since: datetime | None, detail: str, name: str = "", count: int = 1) -> NeedSubject:
    return NeedSubject(key=key, name=name or key, detail=detail, since=since, count=count)
