"""Circuit breakers: commands to them and changes of their state."""

from typing import Literal

from pydantic import Field

from warrener_contracts.circuit_breaker import BreakerName, BreakerState
from warrener_contracts.events.commands import CommandData
from warrener_contracts.events.data import EventData
from warrener_contracts.events.envelope import AGENT, ANYONE, SUPERVISOR, SUPERVISOR_COMMAND, Event, Route
from warrener_contracts.fields import Duration, JobType, Sentence, Timestamp
from warrener_contracts.topology import CONTROL, EVENTS


class BreakerSetRequestedData(CommandData, frozen=True):
    """Open or close this breaker by hand."""

    name: BreakerName
    state: Literal[BreakerState.OPEN, BreakerState.CLOSED]
    open_for: Duration | None = Field(
        default=None,
        description="Open: time until the first probe, or the end of a pause. None: until it is closed by "
        "hand.",
    )
    reason: Sentence = "requested"


class BreakerSetRequested(Event[BreakerSetRequestedData], frozen=True, route=SUPERVISOR_COMMAND):
    """Opens or closes a circuit breaker by hand."""

    type: Literal["breaker.set_requested.v1"] = "breaker.set_requested.v1"


class BreakerChangedData(EventData, frozen=True):
    """The state of a breaker."""

    name: BreakerName
    state: BreakerState = Field(description="Its new state.")
    since: Timestamp
    until: Timestamp | None = Field(
        default=None,
        description="Open: time of the first probe, or the end of a pause. None: until it is closed by hand.",
    )
    reason: Sentence
    job_types: tuple[JobType, ...] = Field(default=(), description="Known job types that it holds back.")


class BreakerChanged(
    Event[BreakerChangedData],
    frozen=True,
    route=Route(EVENTS, "{event}.{state}", (SUPERVISOR,), (ANYONE,)),
    also=(
        Route(
            CONTROL,
            "all",
            (SUPERVISOR,),
            (AGENT,),
            "Agents give back, uncharged, the attempts that an open breaker holds back. Repeated while the "
            "breaker is open, so that agents that start later receive it too.",
            persistent=False,
        ),
    ),
):
    """A circuit breaker has opened, admits probes, or has closed."""

    type: Literal["breaker.changed.v1"] = "breaker.changed.v1"
