"""Circuit breakers on the wire: what is asked of them, and what has become of them."""

from typing import Literal

from pydantic import Field

from warrener_contracts.circuit_breaker import BreakerName, BreakerState
from warrener_contracts.events.envelope import Event, EventData
from warrener_contracts.events.fields import JobType, Sentence, Timestamp
from warrener_contracts.policy import Duration


class BreakerSetRequestedData(EventData, frozen=True):
    """Open or close this breaker by hand."""

    name: BreakerName
    state: Literal[BreakerState.OPEN, BreakerState.CLOSED]
    open_for: Duration | None = Field(
        default=None,
        description="Open: the first probe follows after it. None: it stays open until somebody closes it.",
    )
    reason: Sentence = "asked for"


class BreakerSetRequested(Event[BreakerSetRequestedData], frozen=True):
    """`breaker.set_requested`; the scheduler passes it on to the supervisor."""

    type: Literal["breaker.set_requested.v1"] = "breaker.set_requested.v1"


class BreakerChangedData(EventData, frozen=True):
    """How a breaker stands."""

    name: BreakerName
    state: BreakerState
    since: Timestamp
    until: Timestamp | None = Field(
        default=None, description="Open: when the first probe follows. None: when somebody closes it."
    )
    reason: Sentence
    job_types: tuple[JobType, ...] = Field(default=(), description="Those seen so far that it holds back.")


class BreakerChanged(Event[BreakerChangedData], frozen=True):
    """`breaker.changed.<state>`; to agents by `warrener.control` too, and there again while it is open."""

    type: Literal["breaker.changed.v1"] = "breaker.changed.v1"
