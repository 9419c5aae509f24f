"""Commands of people about escalated incidents, to the supervisor."""

from typing import Annotated, Literal

from pydantic import Field

from warrener_contracts.events.commands import CommandData
from warrener_contracts.events.envelope import SUPERVISOR_COMMAND, Event
from warrener_contracts.fields import Sentence, Timestamp

IncidentFingerprint = Annotated[
    str, Field(min_length=1, max_length=200, description="The incident's fingerprint in the store.")
]
Actor = Annotated[Sentence, Field(description="The person, or the program that acts for one.")]


class IncidentAcknowledgeRequestedData(CommandData, frozen=True):
    """Acknowledge an incident: somebody works on it."""

    fingerprint: IncidentFingerprint
    by: Actor


class IncidentAcknowledgeRequested(
    Event[IncidentAcknowledgeRequestedData], frozen=True, route=SUPERVISOR_COMMAND
):
    """Stops further alerts of this incident; its other steps go on. A closed one stays closed."""

    type: Literal["incident.acknowledge_requested.v1"] = "incident.acknowledge_requested.v1"


class IncidentSnoozeRequestedData(CommandData, frozen=True):
    """Put an incident off until a time."""

    fingerprint: IncidentFingerprint
    by: Actor
    until: Timestamp


class IncidentSnoozeRequested(Event[IncidentSnoozeRequestedData], frozen=True, route=SUPERVISOR_COMMAND):
    """Suspends all steps of this incident's policy until then; a past time resumes them."""

    type: Literal["incident.snooze_requested.v1"] = "incident.snooze_requested.v1"


class IncidentCloseRequestedData(CommandData, frozen=True):
    """Close an incident."""

    fingerprint: IncidentFingerprint
    by: Actor
    reason: Sentence = "requested"


class IncidentCloseRequested(Event[IncidentCloseRequestedData], frozen=True, route=SUPERVISOR_COMMAND):
    """Ends all steps of this incident's policy. Raised again, the incident starts from the first step."""

    type: Literal["incident.close_requested.v1"] = "incident.close_requested.v1"
