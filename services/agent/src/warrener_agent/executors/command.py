"""Attempts as programs."""

import asyncio
from collections.abc import Mapping
from typing import Any

from warrener_agent.context import AttemptFacts, HandlerPort
from warrener_agent.executors.error_info import permanent_failure, start_failure
from warrener_agent.executors.exit_info import describe_limit_kill, is_fault
from warrener_agent.executors.handler_call import bind_arguments, encode_result
from warrener_agent.executors.limit_watch import cancel_and_wait, wait_first
from warrener_agent.executors.port import HandlerRaised, HandlerResult
from warrener_agent.executors.program_end import ProgramEnd, program_failed, read_output
from warrener_agent.executors.program_process import ProgramProcess
from warrener_agent.executors.restarts import Restarts
from warrener_agent.executors.system_user import UserUnavailable
from warrener_agent.job_definitions import JobDefinition
from warrener_agent.program import BadArgument, ProgramCall
from warrener_contracts.events import ErrorKind, FlightRecord
from warrener_contracts.topology import MAX_BODY


class CommandExecutor:
    """Runs the program of each job type, a new process each time."""

    def __init__(self, restarts: Restarts | None = None) -> None:
        self._restarts = restarts or Restarts()

    def begin(
        self,
        definition: JobDefinition,
        facts: AttemptFacts,
        arguments: Mapping[str, Any],
        handler_port: HandlerPort,
    ) -> "CommandExecution":
        return CommandExecution(self._restarts, definition, facts, arguments, handler_port)

    async def close(self) -> None:
        """Nothing is kept."""


class CommandExecution:
    """One run of a program."""

    def __init__(
        self,
        restarts: Restarts,
        definition: JobDefinition,
        facts: AttemptFacts,
        arguments: Mapping[str, Any],
        handler_port: HandlerPort,
    ) -> None:
        self._restarts, self._definition, self._facts = restarts, definition, facts
        self._process: ProgramProcess | None = None
        self.flight_record: FlightRecord | None = None
        self.done = asyncio.create_task(self._run(arguments, handler_port))

    async def stop(self) -> bool:
        if self._process is not None:
            self.flight_record = self._process.capture()
        self.done.cancel()
        await asyncio.wait({self.done})
        return True

    async def wait_finished(self) -> None:
        await asyncio.wait({self.done})

    async def _run(self, arguments: Mapping[str, Any], handler_port: HandlerPort) -> HandlerResult:
        given = bind_arguments(self._definition, self._facts, arguments, handler_port)
        if isinstance(given, HandlerRaised):
            return given
        await self._restarts.pause(self._definition.name)
        try:
            call: ProgramCall = self._definition.handler(**given)
            process = await ProgramProcess.start(call, self._definition.isolation, _variables(self._facts))
        except BadArgument as error:
            return permanent_failure(ErrorKind.BAD_ARGUMENTS, f"{self._definition.name}: {error}")
        except (UserUnavailable, OSError) as error:
            return start_failure(self._definition.name, str(error))
        self._process = process
        try:
            return await self._until_end(process, call)
        finally:
            self._process = None
            await process.close()

    async def _until_end(self, process: ProgramProcess, call: ProgramCall) -> HandlerResult:
        ending = asyncio.create_task(process.ended())
        try:
            exceeded = await wait_first(
                ending, self._definition.isolation.limits, process.members, process.overflow
            )
            if exceeded is not None:
                return describe_limit_kill(exceeded, process.capture())
            return self._judge(process, call, ending.result()) if ending.done() else self._too_much()
        finally:
            await cancel_and_wait(ending)

    def _judge(self, process: ProgramProcess, call: ProgramCall, end: ProgramEnd) -> HandlerResult:
        if end.failed is not None:
            return start_failure(self._definition.name, f"{call.argv[0]}: {end.failed}")
        if end.code in call.program.ok:
            self._restarts.record_clean_exit(self._definition.name)
            stdout = process.stdout
            return self._too_much() if process.overflow.done() else self._result(call, stdout)
        limits = self._definition.isolation.limits
        raised = program_failed(call, end, limits, process.capture(), oom_killed=process.oom_killed)
        if end.exited:
            self._restarts.record_clean_exit(self._definition.name)
        elif is_fault(raised, limits):
            self._restarts.record_crash(self._definition.name)
        return raised

    def _too_much(self) -> HandlerRaised:
        return permanent_failure(
            ErrorKind.BAD_RESULT,
            f"expected a result of at most {MAX_BODY} bytes of {self._definition.name}, it wrote "
            "more: put the "
            "data elsewhere and write its URL",
        )

    def _result(self, call: ProgramCall, stdout: bytes) -> HandlerResult:
        try:
            value = read_output(call.output, stdout)
        except ValueError as error:
            return permanent_failure(
                ErrorKind.BAD_RESULT, f"{self._definition.name} wrote what is not {call.output}: {error}"
            )
        return encode_result(self._definition, value)


def _variables(facts: AttemptFacts) -> dict[str, str]:
    """What a handler would find in its JobContext."""
    return {
        "WARRENER_JOB_ID": str(facts.job_id),
        "WARRENER_JOB_TYPE": facts.job_type,
        "WARRENER_ATTEMPT": str(facts.attempt),
        "WARRENER_MAX_ATTEMPTS": str(facts.max_attempts),
        "WARRENER_DEADLINE": facts.deadline.isoformat(),
    }
