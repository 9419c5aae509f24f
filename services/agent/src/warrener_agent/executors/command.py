"""Attempts as programs."""

import asyncio
from collections.abc import Mapping
from typing import Any

from warrener_agent.context import AttemptFacts, Desk
from warrener_agent.executors.account import AccountError
from warrener_agent.executors.call import arguments_of, result_of
from warrener_agent.executors.death import is_fault, killed
from warrener_agent.executors.failure import cannot_run, refusal
from warrener_agent.executors.port import Ended, Raised
from warrener_agent.executors.program_end import ProgramEnd, program_failed, read_output
from warrener_agent.executors.program_process import ProgramProcess
from warrener_agent.executors.restarts import Restarts
from warrener_agent.executors.watch import abandon, first
from warrener_agent.kinds import JobKind
from warrener_agent.program import BadArgument, Order
from warrener_contracts.events import ErrorKind, FlightRecord
from warrener_contracts.topology import MAX_BODY


class CommandExecutor:
    """Runs the program of each job type, a new process each time."""

    def __init__(self, restarts: Restarts | None = None) -> None:
        self._restarts = restarts or Restarts()

    def begin(
        self, kind: JobKind, facts: AttemptFacts, arguments: Mapping[str, Any], desk: Desk
    ) -> "CommandExecution":
        return CommandExecution(self._restarts, kind, facts, arguments, desk)

    async def close(self) -> None:
        """Nothing is kept."""


class CommandExecution:
    """One run of a program."""

    def __init__(
        self, restarts: Restarts, kind: JobKind, facts: AttemptFacts, arguments: Mapping[str, Any], desk: Desk
    ) -> None:
        self._restarts, self._kind, self._facts = restarts, kind, facts
        self._process: ProgramProcess | None = None
        self.flight_record: FlightRecord | None = None
        self.done = asyncio.create_task(self._run(arguments, desk))

    async def stop(self) -> bool:
        if self._process is not None:
            self.flight_record = self._process.capture()
        self.done.cancel()
        await asyncio.wait({self.done})
        return True

    async def gone(self) -> None:
        await asyncio.wait({self.done})

    async def _run(self, arguments: Mapping[str, Any], desk: Desk) -> Ended:
        given = arguments_of(self._kind, self._facts, arguments, desk)
        if isinstance(given, Raised):
            return given
        await self._restarts.pause(self._kind.name)
        try:
            order: Order = self._kind.handler(**given)
            process = await ProgramProcess.start(order, self._kind.isolation, _variables(self._facts))
        except BadArgument as error:
            return refusal(ErrorKind.BAD_ARGUMENTS, f"{self._kind.name}: {error}")
        except (AccountError, OSError) as error:
            return cannot_run(self._kind.name, str(error))
        self._process = process
        try:
            return await self._until_end(process, order)
        finally:
            self._process = None
            await process.close()

    async def _until_end(self, process: ProgramProcess, order: Order) -> Ended:
        ending = asyncio.create_task(process.ended())
        try:
            breach = await first(ending, self._kind.isolation.limits, process.members, process.overflow)
            if breach is not None:
                return killed(breach, process.capture())
            return self._judge(process, order, ending.result()) if ending.done() else self._too_much()
        finally:
            await abandon(ending)

    def _judge(self, process: ProgramProcess, order: Order, end: ProgramEnd) -> Ended:
        if end.failed is not None:
            return cannot_run(self._kind.name, f"{order.argv[0]}: {end.failed}")
        if end.code in order.program.ok:
            self._restarts.ended_well(self._kind.name)
            stdout = process.stdout
            return self._too_much() if process.overflow.done() else self._result(order, stdout)
        limits = self._kind.isolation.limits
        raised = program_failed(order, end, limits, process.capture(), oom_killed=process.oom_killed)
        if end.exited:
            self._restarts.ended_well(self._kind.name)
        elif is_fault(raised, limits):
            self._restarts.died(self._kind.name)
        return raised

    def _too_much(self) -> Raised:
        return refusal(
            ErrorKind.BAD_RESULT,
            f"expected a result of at most {MAX_BODY} bytes of {self._kind.name}, it wrote more: put the "
            "data elsewhere and write its URL",
        )

    def _result(self, order: Order, stdout: bytes) -> Ended:
        try:
            value = read_output(order.output, stdout)
        except ValueError as error:
            return refusal(
                ErrorKind.BAD_RESULT, f"{self._kind.name} wrote what is not {order.output}: {error}"
            )
        return result_of(self._kind, value)


def _variables(facts: AttemptFacts) -> dict[str, str]:
    """What a handler would find in its JobContext."""
    return {
        "WARRENER_JOB_ID": str(facts.job_id),
        "WARRENER_JOB_TYPE": facts.job_type,
        "WARRENER_ATTEMPT": str(facts.attempt),
        "WARRENER_MAX_ATTEMPTS": str(facts.max_attempts),
        "WARRENER_DEADLINE": facts.deadline.isoformat(),
    }
