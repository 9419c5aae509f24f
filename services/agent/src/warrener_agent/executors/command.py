"""Attempts as programs: each runs below a supervisor of its own, in a new process each time."""

import asyncio
import json
import os
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

from warrener_agent.context import AttemptFacts, HandlerPort
from warrener_agent.decisions.errors import (
    HandlerRaised,
    HandlerResult,
    ProgramEnd,
    describe_limit_kill,
    is_fault,
    permanent_failure,
    program_failed,
    read_output,
    start_failure,
)
from warrener_agent.definitions.isolation import Isolation, Limits
from warrener_agent.definitions.job import JobDefinition
from warrener_agent.definitions.program import BadArgument, ProgramCall
from warrener_agent.executors import program_supervisor
from warrener_agent.executors.base import bind_arguments, encode_result
from warrener_agent.executors.environment import (
    SystemUser,
    UserUnavailable,
    filter_environment,
    resolve_user,
    trace_variables,
)
from warrener_agent.executors.flight_record import CapturedOutput, FlightRecorder, Keep, command_lines
from warrener_agent.executors.limits import Cgroup, cancel_and_wait, kernel_oom_kills, new_group, wait_first
from warrener_agent.executors.process_tree import end_unused, kill_tree, tree
from warrener_agent.executors.restarts import Restarts
from warrener_agent.executors.sandbox import MEMORY, rlimit_cpu
from warrener_agent.log_buffer import NO_LOG, AttemptLogSink
from warrener_contracts.events import ErrorKind, FlightRecord
from warrener_contracts.topology import MAX_BODY

_STDERR = 2


class CommandExecutor:
    """Runs the program of each job type."""

    def __init__(self, restarts: Restarts | None = None) -> None:
        self._restarts = restarts or Restarts()

    def begin(
        self,
        definition: JobDefinition,
        facts: AttemptFacts,
        handler_port: HandlerPort,
        log: AttemptLogSink = NO_LOG,
    ) -> "CommandExecution":
        return CommandExecution(self._restarts, definition, facts, handler_port, log)

    async def close(self) -> None:
        """Do nothing: no process is kept."""


class CommandExecution:
    """One run of a program."""

    def __init__(
        self,
        restarts: Restarts,
        definition: JobDefinition,
        facts: AttemptFacts,
        handler_port: HandlerPort,
        log: AttemptLogSink,
    ) -> None:
        self._restarts, self._definition, self._facts, self._log = restarts, definition, facts, log
        self._process: ProgramProcess | None = None
        self.flight_record: FlightRecord | None = None
        self.done = asyncio.create_task(self._run(handler_port))

    async def stop(self) -> bool:
        if self._process is not None:
            self.flight_record = self._process.capture()
        self.done.cancel()
        await asyncio.wait({self.done})
        return True

    async def wait_finished(self) -> None:
        await asyncio.wait({self.done})

    async def _run(self, handler_port: HandlerPort) -> HandlerResult:
        given = bind_arguments(self._definition, self._facts, handler_port)
        if isinstance(given, HandlerRaised):
            return given
        await self._restarts.pause(self._definition.name)
        try:
            call: ProgramCall = self._definition.handler(**given)
            process = await ProgramProcess.start(
                call, self._definition.isolation, _variables(self._facts), self._log
            )
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

    async def _until_end(self, process: "ProgramProcess", call: ProgramCall) -> HandlerResult:
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

    def _judge(self, process: "ProgramProcess", call: ProgramCall, end: ProgramEnd) -> HandlerResult:
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
            f"expected a result of at most {MAX_BODY} bytes of {self._definition.name}, it wrote more: "
            "put the data elsewhere and write its URL",
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
    """The environment variables that stand for a handler's JobContext and for its span."""
    return {
        "WARRENER_JOB_ID": str(facts.dispatch.job_id),
        "WARRENER_JOB_TYPE": facts.dispatch.job_type,
        "WARRENER_ATTEMPT": str(facts.dispatch.attempt),
        "WARRENER_MAX_ATTEMPTS": str(facts.dispatch.max_attempts),
        "WARRENER_DEADLINE": facts.deadline.isoformat(),
        **trace_variables(facts),
    }


class ProgramProcess:
    """A program below its supervisor, in a session of their own."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        outputs: tuple[CapturedOutput, CapturedOutput],
        folder: Path | None,
        group: Cgroup | None,
    ) -> None:
        self._process, self._folder, self._group = process, folder, group
        self._reader, self._writer = streams
        self._out, self._err = outputs
        self._recorder = FlightRecorder(self._err)
        self._oom_kills = self._count_oom_kills()

    @classmethod
    async def start(
        cls,
        call: ProgramCall,
        isolation: Isolation,
        variables: Mapping[str, str],
        log: AttemptLogSink = NO_LOG,
    ) -> Self:
        """Start a program. Raises UserUnavailable if it cannot run as its user."""
        user = resolve_user(isolation.process_settings.user)
        folder = _own_folder(user) if call.cwd is None else None
        ours, theirs = socket.socketpair()
        out, err = CapturedOutput(capacity=MAX_BODY, keep=Keep.FIRST), CapturedOutput(forward_to=_STDERR)
        err.listener = partial(log.add_output, "stderr")
        if call.output != "json":  # that is the result, and no log
            out.listener = partial(log.add_output, "stdout")
        launch_request = _launch_request(call, isolation, user, str(folder or call.cwd), theirs.fileno())
        environment = {
            **filter_environment(os.environ, isolation.process_settings.environment),
            **(user.environment if user else {}),
            **variables,
            **call.variables,
        }
        process: asyncio.subprocess.Process | None = None
        try:
            with theirs, tempfile.TemporaryFile() as stdin:
                stdin.write(call.stdin)
                stdin.seek(0)
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-I",
                    "-S",
                    program_supervisor.__file__,
                    json.dumps(launch_request),
                    stdin=stdin,
                    stdout=out.writing,
                    stderr=err.writing,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                    env=environment,
                )
            for output in (out, err):
                output.close_writing_end()
            group = new_group()
            if group is not None:
                group.limit(isolation.limits)
                group.add(process.pid)
            reader, writer = await asyncio.open_connection(sock=ours)
            writer.write(b"\n")  # begin
            return cls(process, (reader, writer), (out, err), folder, group)
        except BaseException:
            ours.close()
            for output in (out, err):
                output.close()
            if process is not None:
                await end_unused(process)
            _remove(folder)
            raise

    @property
    def overflow(self) -> asyncio.Future[None]:
        """Done once the program has written more than a result may hold."""
        return self._out.overflow

    @property
    def stdout(self) -> bytes:
        """The program's standard output."""
        self._out.drain()
        return self._out.content

    @property
    def oom_killed(self) -> bool:
        """True if the kernel has killed for lack of memory since the program was started."""
        return self._count_oom_kills() > self._oom_kills

    def members(self) -> list[int]:
        """The program and its descendants, without the supervisor."""
        found = (self._group.members() if self._group else []) or tree(self._process.pid)
        return [pid for pid in found if pid != self._process.pid]

    async def ended(self) -> ProgramEnd:
        """Wait for the end of the program."""
        failed: str | None = None
        while line := await self._read_line():
            message = json.loads(line)
            if "failed" not in message:
                return ProgramEnd(message["code"], message["cpu"], message["memory"], failed)
            failed = message["failed"]
        return ProgramEnd(None)

    def capture(self) -> FlightRecord:
        """Return the flight record of the program."""
        pids = self.members()
        return self._recorder.record(pids, command_lines(pids))

    async def close(self) -> None:
        """Kill the program and its descendants, and release all that it held."""
        if self._group is not None:
            self._group.kill()
        kill_tree(self._process.pid)
        await self._process.wait()
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()
        for output in (self._out, self._err):
            output.drain()
            output.close()
        await asyncio.to_thread(_remove, self._folder)
        if self._group is not None:
            await asyncio.to_thread(self._group.remove)

    async def _read_line(self) -> bytes:
        try:
            return await self._reader.readline()
        except ConnectionError:
            return b""

    def _count_oom_kills(self) -> int:
        return self._group.oom_kills() if self._group is not None else kernel_oom_kills()


def _launch_request(
    call: ProgramCall, isolation: Isolation, user: SystemUser | None, cwd: str, control: int
) -> program_supervisor.LaunchRequest:
    return {
        "argv": list(call.argv),
        "cwd": cwd,
        "umask": isolation.process_settings.umask,
        "user": None if user is None else (user.uid, user.gid),
        "limits": list(_limits(isolation.limits)),
        "control": control,
    }


def _limits(limits: Limits) -> list[tuple[int, int, int]]:
    limits_list: list[tuple[int, int, int]] = [(resource.RLIMIT_CORE, 0, 0)]
    for name, value in (
        (MEMORY, limits.memory_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
    ):
        if value is not None:
            limits_list.append((name, value, value))
    if limits.cpu_seconds is not None:
        seconds = rlimit_cpu(limits.cpu_seconds)
        limits_list.append((resource.RLIMIT_CPU, seconds, seconds + 1))  # first SIGXCPU, then SIGKILL
    return limits_list


def _own_folder(user: SystemUser | None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="warrener-"))
    if user is not None:
        os.chown(folder, user.uid, user.gid)
    return folder


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
