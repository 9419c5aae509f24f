"""Commands of people about escalated incidents, to the supervisor."""

from typing import Annotated, Literal, Self

from pydantic import Field

from warrener_contracts.events.commands import CommandData
from warrener_contracts.events.envelope import ANYONE, SUPERVISOR, Event
from warrener_contracts.events.examples import ANN, CONSOLE, at, envelope
from warrener_contracts.fields import Sentence, Timestamp
from warrener_contracts.topology import COMMANDS

IncidentFingerprint = Annotated[
    str, Field(min_length=1, max_length=200, description="The incident's fingerprint in the store.")
]
Actor = Annotated[Sentence, Field(description="The person, or the program that acts for one.")]
_EXAMPLE = "3f9a1c77e0b2"


class IncidentAcknowledgeRequestedData(CommandData, frozen=True):
    """Acknowledge an incident: somebody works on it."""

    fingerprint: IncidentFingerprint
    by: Actor


class IncidentAcknowledgeRequested(
    Event[IncidentAcknowledgeRequestedData],
    frozen=True,
    exchange=COMMANDS,
    key="incident.acknowledge_requested",
    sender=ANYONE,
    receiver=SUPERVISOR,
):
    """Stops further alerts of this incident; its other steps go on. A closed one stays closed."""

    type: Literal["incident.acknowledge_requested.v1"] = "incident.acknowledge_requested.v1"

    @classmethod
    def example(cls) -> Self:
        return cls(
            **envelope(41, CONSOLE, 300, _EXAMPLE),
            data=IncidentAcknowledgeRequestedData(fingerprint=_EXAMPLE, by=ANN, reply_to="operations-desk-4"),
        )


class IncidentSnoozeRequestedData(CommandData, frozen=True):
    """Put an incident off until a time."""

    fingerprint: IncidentFingerprint
    by: Actor
    until: Timestamp


class IncidentSnoozeRequested(
    Event[IncidentSnoozeRequestedData],
    frozen=True,
    exchange=COMMANDS,
    key="incident.snooze_requested",
    sender=ANYONE,
    receiver=SUPERVISOR,
):
    """Suspends all steps of this incident's policy until then; a past time resumes them."""

    type: Literal["incident.snooze_requested.v1"] = "incident.snooze_requested.v1"

    @classmethod
    def example(cls) -> Self:
        return cls(
            **envelope(42, CONSOLE, 301, _EXAMPLE),
            data=IncidentSnoozeRequestedData(
                fingerprint=_EXAMPLE, by=ANN, until=at(7200), reply_to="operations-desk-4"
            ),
        )


class IncidentCloseRequestedData(CommandData, frozen=True):
    """Close an incident."""

    fingerprint: IncidentFingerprint
    by: Actor
    reason: Sentence = "requested"


class IncidentCloseRequested(
    Event[IncidentCloseRequestedData],
    frozen=True,
    exchange=COMMANDS,
    key="incident.close_requested",
    sender=ANYONE,
    receiver=SUPERVISOR,
):
    """Ends all steps of this incident's policy. Raised again, the incident starts from the first step."""

    type: Literal["incident.close_requested.v1"] = "incident.close_requested.v1"

    @classmethod
    def example(cls) -> Self:
        return cls(
            **envelope(43, CONSOLE, 302, _EXAMPLE),
            data=IncidentCloseRequestedData(
                fingerprint=_EXAMPLE,
                by=ANN,
                reason="the disk has been replaced",
                reply_to="operations-desk-4",
            ),
        )
