"""Commands of people about gates, to the supervisor."""

from typing import Literal

from pydantic import Field

from warrener_contracts.events.commands import CommandData
from warrener_contracts.events.envelope import SUPERVISOR_COMMAND, Event
from warrener_contracts.events.incidents import Actor
from warrener_contracts.fields import Sentence


class GateSetRequestedData(CommandData, frozen=True):
    """Set the slots of a gate by hand."""

    name: str = Field(min_length=1, max_length=200, examples=["pool/crm/acme", "job/report.render"])
    slots: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        strict=True,
        description="Number that holds against announcements. None: the announced one again.",
    )
    by: Actor
    reason: Sentence = "requested"


class GateSetRequested(Event[GateSetRequestedData], frozen=True, route=SUPERVISOR_COMMAND):
    """Changes how many jobs a gate lets through at once. Jobs that have a slot go on."""

    type: Literal["gate.set_requested.v1"] = "gate.set_requested.v1"
