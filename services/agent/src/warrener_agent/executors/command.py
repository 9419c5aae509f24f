"""Attempts as programs: each runs below a supervisor of its own, in a new process each time."""

import asyncio
import json
import os
import resource
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Self

from warrener_agent.context import AttemptFacts
from warrener_agent.decisions import errors
from warrener_agent.definitions.isolation import Isolation, Limits
from warrener_agent.definitions.program import BadArgument, ProgramCall
from warrener_agent.executors import isolated, program_supervisor
from warrener_agent.executors.base import Executor, HandlerCall, bind_arguments, encode_result
from warrener_agent.executors.flight_record import CapturedOutput, command_lines, record_processes
from warrener_agent.executors.frames import trace_variables
from warrener_agent.executors.limits import kernel_limits
from warrener_agent.executors.sandbox import rlimit_cpu
from warrener_agent.log_buffer import LogBuffer
from warrener_contracts.events import ErrorKind, FlightRecord
from warrener_contracts.topology import MAX_BODY


class CommandExecutor(Executor):
    """Runs the program of each job type."""

    def __init__(self, restarts: isolated.Restarts | None = None, *, environment: Sequence[str] = ()) -> None:
        self._restarts, self._environment = restarts or isolated.Restarts(), environment

    def begin(self, handler_call: HandlerCall) -> "CommandExecution":
        return CommandExecution(handler_call, self._restarts, self._environment)


class CommandExecution(isolated.IsolatedExecution["ProgramProcess"]):
    async def _run(self) -> errors.HandlerResult:
        given = bind_arguments(self._call)
        if isinstance(given, errors.HandlerRaised):
            return given
        await self._restarts.pause(self._job_type)
        try:
            call: ProgramCall = self._call.definition.handler(**given)
            process = await ProgramProcess.start(
                call, self._isolation, _variables(self._call.facts), self._call.log
            )
        except BadArgument as error:
            return errors.permanent_failure(ErrorKind.BAD_ARGUMENTS, f"{self._job_type}: {error}")
        except (isolated.UserUnavailable, OSError) as error:
            return errors.start_failure(self._job_type, str(error))
        self._process = process
        try:
            end = await self._within_limits(process, process.ended(), process.overflow)
            if isinstance(end, errors.HandlerRaised):
                return end
            return self._too_much() if end is None else await self._judge(process, call, end)
        finally:
            self._process = None
            await process.close()

    async def _judge(
        self, process: "ProgramProcess", call: ProgramCall, end: errors.ProgramEnd
    ) -> errors.HandlerResult:
        if end.failed is not None:
            return errors.start_failure(self._job_type, f"{call.argv[0]}: {end.failed}")
        if end.code in call.program.ok:
            self._restarts.record_clean_exit(self._job_type)
            stdout = process.stdout
            return self._too_much() if process.overflow.done() else self._result(call, stdout)
        limits = self._isolation.limits
        raised = errors.program_failed(
            call, end, limits, await process.capture(), oom_killed=process.oom_killed
        )
        if end.exited:
            self._restarts.record_clean_exit(self._job_type)
        elif errors.is_fault(raised, limits):
            self._restarts.record_crash(self._job_type)
        return raised

    def _too_much(self) -> errors.HandlerRaised:
        return errors.permanent_failure(
            ErrorKind.BAD_RESULT,
            f"expected a result of at most {MAX_BODY} bytes of {self._job_type}, it wrote more: "
            "put the data elsewhere and write its URL",
        )

    def _result(self, call: ProgramCall, stdout: bytes) -> errors.HandlerResult:
        try:
            value = errors.read_output(call.output, stdout)
        except ValueError as error:
            return errors.permanent_failure(
                ErrorKind.BAD_RESULT, f"{self._job_type} wrote what is not {call.output}: {error}"
            )
        return encode_result(self._call.definition, value)


def _variables(facts: AttemptFacts) -> dict[str, str]:
    """The environment variables that stand for a handler's JobContext and for its span."""
    return {
        "WARRENER_JOB_ID": str(facts.dispatch.job_id),
        "WARRENER_JOB_TYPE": facts.dispatch.job_type,
        "WARRENER_ATTEMPT": str(facts.dispatch.attempt),
        "WARRENER_MAX_ATTEMPTS": str(facts.dispatch.max_attempts),
        "WARRENER_DEADLINE": facts.deadline.isoformat(),
        **(
            {}
            if (history := facts.dispatch.history) is None
            else {"WARRENER_HISTORY": history.model_dump_json()}
        ),
        **trace_variables(facts),
    }


class ProgramProcess(isolated.IsolatedProcess):
    """A program below its supervisor, with the empty folder in which it runs unless it names one."""

    def __init__(
        self, spawned: isolated.Spawned, out: CapturedOutput, err: CapturedOutput, folder: ExitStack
    ) -> None:
        super().__init__(spawned, out, err)
        self._out, self._err, self._folder = out, err, folder

    @classmethod
    async def start(
        cls, call: ProgramCall, isolation: Isolation, variables: Mapping[str, str], log: LogBuffer
    ) -> Self:
        """Start a program. Raises UserUnavailable if it cannot run as its user."""
        settings = isolation.process_settings
        user = isolated.resolve_user(settings.user)
        with ExitStack() as opened, tempfile.TemporaryFile() as stdin:
            cwd = call.cwd
            if cwd is None:
                folder = tempfile.TemporaryDirectory(prefix="warrener-", ignore_cleanup_errors=True)
                cwd = opened.enter_context(folder)
                if user is not None:
                    os.chown(cwd, user.pw_uid, user.pw_gid)
            out, err = (
                CapturedOutput(capacity=MAX_BODY, keep_first=True),
                CapturedOutput(forward_to=isolated.STDERR),
            )
            err.listener = partial(log.add_output, "stderr")
            if call.output != "json":  # that is the result, and no log
                out.listener = partial(log.add_output, "stdout")
            stdin.write(call.stdin)
            stdin.seek(0)

            def arguments(control: int) -> list[str]:
                request: program_supervisor.LaunchRequest = {
                    "argv": list(call.argv),
                    "cwd": cwd,
                    "umask": settings.umask,
                    "user": None if user is None else (user.pw_uid, user.pw_gid),
                    "limits": _limits(isolation.limits),
                    "control": control,
                }
                return ["-I", "-S", program_supervisor.__file__, json.dumps(request)]

            environment = {**isolated.process_environment(settings, user), **variables, **call.variables}
            spawned = await isolated.spawn(
                arguments, (out, err), stdin=stdin, environment=environment, limits=isolation.limits
            )
            process = cls(spawned, out, err, opened.pop_all())
        spawned.writer.write(b"\n")  # begin
        return process

    @property
    def overflow(self) -> asyncio.Future[None]:
        """Done once the program has written more than a result may hold."""
        return self._out.overflow

    @property
    def stdout(self) -> bytes:
        self._out.drain()
        return self._out.content

    def members(self) -> list[int]:
        """The program and its descendants, without the supervisor."""
        return [pid for pid in super().members() if pid != self.pid]

    async def ended(self) -> errors.ProgramEnd:
        failed: str | None = None
        while line := await self._read_line():
            message = json.loads(line)
            if "failed" not in message:
                return errors.ProgramEnd(message["code"], message["cpu"], message["memory"], failed)
            failed = message["failed"]
        return errors.ProgramEnd(None)

    async def capture(self) -> FlightRecord:
        pids = self.members()
        self._err.drain()
        # Compilers and test runners write their errors to the standard output.
        log = self._err if self._err.content or self._out.listener is None else self._out
        return record_processes(log, pids, command_lines(pids))

    async def close(self) -> None:
        await super().close()
        await asyncio.to_thread(self._folder.close)

    async def _read_line(self) -> bytes:
        try:
            return await self._reader.readline()
        except ConnectionError:
            return b""


def _limits(limits: Limits) -> list[tuple[int, int, int]]:
    """The limits with their soft and hard values: a program is a new process each time."""
    pairs = [(name, value, value) for name, value in kernel_limits(limits)]
    if limits.cpu_seconds is not None:
        seconds = rlimit_cpu(limits.cpu_seconds)
        pairs.append((resource.RLIMIT_CPU, seconds, seconds + 1))  # first SIGXCPU, then SIGKILL
    return [(resource.RLIMIT_CORE, 0, 0), *pairs]
