"""What people say about escalated cases (exchange `warrener.status`), to the supervisor, who escalates."""

from typing import Annotated, Literal

from pydantic import Field

from warrener_contracts.events.envelope import Event, EventData
from warrener_contracts.events.fields import Instant, Sentence

CaseName = Annotated[
    str, Field(min_length=1, max_length=200, description="The case's fingerprint, as the store has it.")
]
Speaker = Annotated[Sentence, Field(description="Who: a person, or what speaks for one.")]


class CaseAcknowledgeRequestedData(EventData, frozen=True):
    """Somebody is on it."""

    fingerprint: CaseName
    by: Speaker


class CaseAcknowledgeRequested(Event[CaseAcknowledgeRequestedData], frozen=True):
    """No further alerts of this case; all else of its ladder goes on. A closed case stays closed."""

    type: Literal["case.acknowledge_requested.v1"] = "case.acknowledge_requested.v1"


class CaseSnoozeRequestedData(EventData, frozen=True):
    """Not now."""

    fingerprint: CaseName
    by: Speaker
    until: Instant


class CaseSnoozeRequested(Event[CaseSnoozeRequestedData], frozen=True):
    """Nothing of this case's ladder happens until then; a time that has passed wakes it."""

    type: Literal["case.snooze_requested.v1"] = "case.snooze_requested.v1"


class CaseCloseRequestedData(EventData, frozen=True):
    """It is over."""

    fingerprint: CaseName
    by: Speaker
    reason: Sentence = "asked for"


class CaseCloseRequested(Event[CaseCloseRequestedData], frozen=True):
    """Nothing more is done about this case. Raised again, it begins anew."""

    type: Literal["case.close_requested.v1"] = "case.close_requested.v1"
