"""What every executor does."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from warrener_agent.context import AttemptFacts, Desk
from warrener_agent.failures import Instead
from warrener_agent.kinds import JobKind
from warrener_contracts.events import ErrorInfo, FlightRecord


class Returned(NamedTuple):
    """The handler returned; `result_text` is JSON, as it is kept and told."""

    result_text: str


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler raised, or could not be called, or its executor died."""

    error: ErrorInfo
    retry_after_seconds: float | None = None
    instead: Instead | None = None


Ended = Returned | Raised


class Execution(Protocol):
    """One handler that runs."""

    @property
    def done(self) -> asyncio.Future[Ended]:
        """Its end. Whatever the handler does becomes data: this raises nothing of it. Do not cancel it."""
        ...

    @property
    def flight_record(self) -> FlightRecord | None:
        """What was seen of it just before it was stopped, where that can be seen."""
        ...

    async def stop(self) -> bool:
        """Stop it. False where it cannot be stopped and still runs, abandoned."""
        ...

    async def gone(self) -> None:
        """Wait until nothing of it runs any more."""
        ...


class Executor(Protocol):
    """Runs handlers."""

    def begin(
        self, kind: JobKind, facts: AttemptFacts, arguments: Mapping[str, Any], desk: Desk
    ) -> Execution:
        """Begin to run the handler of `kind`."""
        ...

    async def close(self) -> None:
        """Let go of what is kept for later."""
        ...
