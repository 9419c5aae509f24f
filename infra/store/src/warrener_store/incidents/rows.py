"""Incidents and their occurrences as frozen values. Pure.

An incident is everything that was raised under one fingerprint until it is
closed; if the fingerprint is raised again after that, the incident reopens."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict

from warrener_contracts.events import JsonObject

ALL_STEPS_DONE = 1_000_000
"""The value of `IncidentOccurrence.steps_done` when no step is left for an occurrence."""
_FINGERPRINT = 200  # characters
_REFUSED_PERIOD = timedelta(seconds=90)  # an occurrence is a minute, and raised within 20 s
SCHEDULE_PAUSED = "schedule.paused"
"""The kind of the incident that a schedule was paused, after failures or rejected requests."""
MIXED_QUEUE = "queue.mixed"
"""The kind of the incident that jobs wait in a queue whose agents do not know their type."""
REFUSING_QUEUE = "queue.refusing"
"""The kind of the incident that a dispatch queue refuses messages, so that its jobs wait in the store. Its
sample has the moment `since`."""

JOB_TYPE_CONFLICT = "job_type.conflict"
"""The kind of the incident that an agent's declaration of a job type does not count: another agent's does."""

TOPOLOGY_REFUSED = "topology.refused"
"""The kind of the incident that the broker refuses a piece of the topology to a service. It is raised again
every minute while that lasts."""


def refusing_fingerprint(queue: str) -> str:
    """The fingerprint of the incident that this queue refuses messages."""
    return f"{REFUSING_QUEUE}:{queue}"[:_FINGERPRINT]


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedIncident:
    """One occurrence of an incident, as a service raises it."""

    kind: str  # "job.dead", "agent.lost": selects the escalation policy
    fingerprint: str  # of the cause: everything raised under it is one incident
    occurrence: str  # identifies this occurrence: a repeat is not counted
    subject: str  # the job, the agent, the schedule it is about
    job_type: str | None = None
    sample: JsonObject  # values for alerts; small
    raised_at: datetime


def refused_pieces(refused: Mapping[str, str], now: datetime) -> list[RaisedIncident]:
    """Return an incident for each piece of the topology that the broker refuses, by the sentences that say
    why. Within a minute it counts once."""
    return [
        RaisedIncident(
            kind=TOPOLOGY_REFUSED,
            fingerprint=f"{TOPOLOGY_REFUSED}:{piece}"[:_FINGERPRINT],
            occurrence=now.isoformat(timespec="minutes"),
            subject=piece,
            sample={"text": text},
            raised_at=now,
        )
        for piece, text in refused.items()
    ]


def still_refused(rows: Iterable["IncidentRow"], now: datetime) -> dict[str, str]:
    """Select from open incidents the pieces that the broker refuses now; return their sentences."""
    return {
        row.subject: str(row.sample.get("text", ""))
        for row in rows
        if row.kind == TOPOLOGY_REFUSED and now - row.last_seen_at < _REFUSED_PERIOD
    }


class PolicyAdoption(BaseModel):
    """A version of a policy that an incident has followed since then."""

    model_config = ConfigDict(frozen=True)

    name: str
    version: str
    since: AwareDatetime


class PolicyHistory(BaseModel):
    """The versions of policies that an incident has followed, the present one last; one for each restart."""

    model_config = ConfigDict(frozen=True)

    adoptions: tuple[PolicyAdoption, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyVersionRow:
    """One version of an escalation policy. Its definition never changes: the version is a digest of it."""

    version: str
    name: str  # as it was when the version was stored first
    definition: JsonObject
    first_seen_at: datetime  # in the file of any supervisor
    last_seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRow:
    """One incident. `wake_at` is when a supervisor must look at it; None: when it is raised again."""

    # As raised; of the last occurrence, if they differ.
    fingerprint: str
    kind: str
    subject: str
    job_type: str | None
    sample: JsonObject
    times: int
    first_seen_at: datetime
    last_seen_at: datetime

    # The progress of its escalation.
    round: int = 1  # grows when a closed incident is raised again, and when an open one restarts
    policy_version: str | None = None  # that it follows; None: no supervisor has looked at it
    policy_history: PolicyHistory | None = None
    step: int = 0  # the next step of its policy
    due_at: datetime | None = None  # of that step; None: counted from `first_seen_at`
    failed_tries: int = 0  # failed ones of this step
    delivered: tuple[str, ...] = ()  # sinks that accepted this step's alert
    last_error: str | None = None  # why the last try failed
    wake_at: datetime | None
    claimed_by: str | None = None
    claimed_until: datetime | None = None

    # The commands of operators.
    acknowledged_by: str | None = None
    acknowledged_at: datetime | None = None
    snoozed_until: datetime | None = None
    closed_at: datetime | None = None
    close_reason: str | None = None


class IncidentPosition(NamedTuple):
    """The position of an incident in a list."""

    last_seen_at: datetime
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFilter:
    """The incidents to list: open ones, if not said otherwise."""

    fingerprints: Collection[str] | None = None  # None: any
    closed: bool = False  # True: closed ones too
    # Of a list that is not by fingerprints.
    after: IncidentPosition | None = None  # only those behind this position
    limit: int = 50


OPEN_INCIDENTS = IncidentFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentOccurrence:
    """One occurrence of an incident; `steps_done` counts the steps that have handled it."""

    occurrence: str
    subject: str
    raised_at: datetime
    steps_done: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentChange:
    """An operator's change of an open incident. None leaves a field as it is."""

    fingerprint: str
    at: datetime
    acknowledged_by: str | None = None
    snoozed_until: datetime | None = None
    close_reason: str | None = None
