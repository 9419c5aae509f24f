"""What became of an attempt, as the agent sees it. Pure data."""

from dataclasses import dataclass
from typing import NamedTuple

from warrener_agent.failures import HandlerSignal
from warrener_agent.ledger.port import Completion, Failure
from warrener_contracts.events import ErrorInfo, FlightRecord


class SucceededOutcome(NamedTuple):
    """The handler returned. `recorded`: it stands in the ledger already."""

    completion: Completion
    recorded: bool


@dataclass(frozen=True, slots=True)
class FailedOutcome:
    """The handler raised, ran too long, or its executor died. `handler_signal`: it has not failed, its
    handler asks for something else. `recorded`: what stands in the ledger of it already."""

    error: ErrorInfo
    retry_after_seconds: float | None = None
    recorded: Failure | None = None
    handler_signal: HandlerSignal | None = None


@dataclass(frozen=True, slots=True)
class CancelledOutcome:
    """It was stopped, or not started, because somebody asked."""

    reason: str
    flight_record: FlightRecord | None = None


@dataclass(frozen=True, slots=True)
class ReleasedOutcome:
    """It is given back unharmed."""

    reason: str


@dataclass(frozen=True, slots=True)
class UnresolvedOutcome:
    """The claim was lost, or the ledger refused the completion or did not say: it must be asked what
    holds."""

    why: str


@dataclass(frozen=True, slots=True)
class SupersededOutcome:
    """It is another's by now: nothing is said about it."""

    why: str


ReportableOutcome = FailedOutcome | CancelledOutcome | ReleasedOutcome
"""What went otherwise, and is said."""

FinalOutcome = SucceededOutcome | ReportableOutcome | SupersededOutcome
Outcome = FinalOutcome | UnresolvedOutcome
