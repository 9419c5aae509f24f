"""What people say about escalated cases (exchange `warrener.status`), to the supervisor, who escalates."""

from typing import Annotated, Literal

from pydantic import Field

from warrener_contracts.events.envelope import Event, EventData
from warrener_contracts.events.fields import Sentence, Timestamp

IncidentFingerprint = Annotated[
    str, Field(min_length=1, max_length=200, description="The case's fingerprint, as the store has it.")
]
Actor = Annotated[Sentence, Field(description="Who: a person, or what speaks for one.")]


class IncidentAcknowledgeRequestedData(EventData, frozen=True):
    """Somebody is on it."""

    fingerprint: IncidentFingerprint
    by: Actor


class IncidentAcknowledgeRequested(Event[IncidentAcknowledgeRequestedData], frozen=True):
    """No further alerts of this case; all else of its ladder goes on. A closed case stays closed."""

    type: Literal["case.acknowledge_requested.v1"] = "case.acknowledge_requested.v1"


class IncidentSnoozeRequestedData(EventData, frozen=True):
    """Not now."""

    fingerprint: IncidentFingerprint
    by: Actor
    until: Timestamp


class IncidentSnoozeRequested(Event[IncidentSnoozeRequestedData], frozen=True):
    """Nothing of this case's ladder happens until then; a time that has passed wakes it."""

    type: Literal["case.snooze_requested.v1"] = "case.snooze_requested.v1"


class IncidentCloseRequestedData(EventData, frozen=True):
    """It is over."""

    fingerprint: IncidentFingerprint
    by: Actor
    reason: Sentence = "asked for"


class IncidentCloseRequested(Event[IncidentCloseRequestedData], frozen=True):
    """Nothing more is done about this case. Raised again, it begins anew."""

    type: Literal["case.close_requested.v1"] = "case.close_requested.v1"
