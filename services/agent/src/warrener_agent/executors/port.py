"""What every executor does."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from warrener_agent.context import AttemptFacts, HandlerPort
from warrener_agent.failures import HandlerSignal
from warrener_agent.job_definitions import JobDefinition
from warrener_contracts.events import ErrorInfo, FlightRecord


class HandlerReturned(NamedTuple):
    """The handler returned; `result_text` is JSON, as it is kept and told."""

    result_text: str


@dataclass(frozen=True, slots=True)
class HandlerRaised:
    """The handler raised, or could not be called, or its executor died."""

    error: ErrorInfo
    retry_after_seconds: float | None = None
    handler_signal: HandlerSignal | None = None


HandlerResult = HandlerReturned | HandlerRaised


class Execution(Protocol):
    """One handler that runs."""

    @property
    def done(self) -> asyncio.Future[HandlerResult]:
        """Its end. Whatever the handler does becomes data: this raises nothing of it. Do not cancel it."""
        ...

    @property
    def flight_record(self) -> FlightRecord | None:
        """What was seen of it just before it was stopped, where that can be seen."""
        ...

    async def stop(self) -> bool:
        """Stop it. False where it cannot be stopped and still runs, abandoned."""
        ...

    async def wait_finished(self) -> None:
        """Wait until nothing of it runs any more."""
        ...


class Executor(Protocol):
    """Runs handlers."""

    def begin(
        self,
        definition: JobDefinition,
        facts: AttemptFacts,
        arguments: Mapping[str, Any],
        handler_port: HandlerPort,
    ) -> Execution:
        """Begin to run the handler of `definition`."""
        ...

    async def close(self) -> None:
        """Let go of what is kept for later."""
        ...
