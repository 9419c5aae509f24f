"""Attempts in warm child processes: this executor can stop any handler."""

import asyncio
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import IO, Any, Self

from warrener_agent.context import ChildJobSpec, HandlerPort
from warrener_agent.decisions import errors
from warrener_agent.definitions.isolation import Limits, ProcessSettings, Recycle
from warrener_agent.executors import isolated
from warrener_agent.executors.base import Executor, HandlerCall
from warrener_agent.executors.flight_record import SIGNAL, CapturedOutput, record_processes
from warrener_agent.executors.frames import HEADER, Frame, pack, trace_variables, unpack
from warrener_agent.executors.limits import kernel_limits
from warrener_agent.failures import HandlerSignal
from warrener_agent.log_buffer import LogBuffer
from warrener_contracts.events import ErrorInfo, FlightRecord
from warrener_runtime.logs import get_logger

_log = get_logger("agent.pool")

_WHAT = "the child process to report the end of the handler"
_ANSWER_TIMEOUT = 0.4  # seconds that a child may take to send its stacks itself
_WRITE_TIMEOUT = 0.2  # seconds that a child that did not send its stacks may take to write them at a signal


class ProcessExecutor(Executor):
    """Runs each handler in a child process, which stays warm for the next one."""

    def __init__(
        self,
        restarts: isolated.Restarts | None = None,
        *,
        log_level: str = "info",
        environment: Sequence[str] = (),
    ) -> None:
        self.restarts, self.log_level = restarts or isolated.Restarts(), log_level
        self.environment = environment
        self.pool = ChildPool()

    def begin(self, handler_call: HandlerCall) -> "ProcessExecution":
        return ProcessExecution(self, handler_call)

    async def close(self) -> None:
        await self.pool.close()


class ProcessExecution(isolated.IsolatedExecution["ChildProcess"]):
    """One assignment of one child process."""

    def __init__(self, executor: ProcessExecutor, handler_call: HandlerCall) -> None:
        self._pool = executor.pool
        self._assignment = _assignment(handler_call) | {"log_level": executor.log_level}
        super().__init__(handler_call, executor.restarts, executor.environment)

    async def _run(self) -> errors.HandlerResult:
        await self._restarts.pause(self._job_type)
        try:
            child = self._process = await self._pool.borrow(self._isolation.process_settings)
        except (isolated.UserUnavailable, OSError) as error:
            return errors.start_failure(self._job_type, str(error))
        try:
            ended = errors.relabel_memory_error(await self._until_end(child), self._isolation.limits)
        except BaseException:
            await child.close()
            self._replace(failed=False)
            raise
        self._process = None
        if child.alive:
            self._restarts.record_clean_exit(self._job_type)
        if isinstance(ended, errors.HandlerRaised) and ended.error.type == errors.OUT_OF_MEMORY:
            self._pool.dismiss(child)  # it may be short of memory still
            self._replace(failed=True)
        elif not self._pool.give_back(child, self._isolation.process_settings, self._isolation.recycle):
            self._replace(failed=not child.alive)
        return ended

    async def _until_end(self, child: "ChildProcess") -> errors.HandlerResult:
        limits = self._isolation.limits
        running = child.run(self._assignment, limits, self._call.port, self._call.log)
        try:
            ended = await self._within_limits(child, running)
        except ChildDied as end:
            raised = errors.describe_crash(
                _WHAT, end.code, limits, child.record(), oom_killed=child.oom_killed
            )
            if errors.is_fault(raised, limits):
                self._restarts.record_crash(self._job_type)
            return raised
        assert ended is not None
        return ended

    def _replace(self, *, failed: bool) -> None:
        """Start another child, if the job type declares that, in place of one that is not kept."""
        if self._isolation.restart == "always" or (failed and self._isolation.restart == "on-failure"):
            self._pool.replace(
                self._isolation.process_settings, partial(self._restarts.pause, self._job_type)
            )


def _assignment(handler_call: HandlerCall) -> Frame:
    definition, facts, *_ = handler_call
    limits = definition.isolation.limits
    return {
        "path": sys.path,
        "module": definition.handler.__module__,
        "qualname": definition.handler.__qualname__,
        # As text: a user's JSON must not be read as tags of a frame.
        "dispatch": facts.dispatch.model_dump_json(exclude={"arguments", "checkpoint"}),
        "arguments": json.dumps(facts.dispatch.arguments),
        "checkpoint": json.dumps(facts.last_checkpoint),
        "deadline": facts.deadline,
        "limits": {"limits": kernel_limits(limits), "cpu": limits.cpu_seconds},
        "trace": trace_variables(facts),
    }


class ChildPool:
    """Keeps warm children for attempts with the same process settings; starts one if none is idle."""

    def __init__(self) -> None:
        self._idle: defaultdict[ProcessSettings, list[ChildProcess]] = defaultdict(list)
        self._closing: set[asyncio.Task[None]] = set()
        self._replacing: dict[ProcessSettings, asyncio.Task[None]] = {}

    async def borrow(self, process_settings: ProcessSettings) -> "ChildProcess":
        """Return a child that waits for work. Raises UserUnavailable."""
        idle = self._idle[process_settings]
        while idle:
            child = idle.pop()
            if child.alive:
                return child
            self.dismiss(child)
        return await ChildProcess.start(process_settings)

    def give_back(self, child: "ChildProcess", process_settings: ProcessSettings, recycle: Recycle) -> bool:
        """Take back a child that has finished an attempt; True if it is kept.

        A child is dismissed if it is due for recycling, or if a process that the attempt started still runs:
        nothing of an attempt outlives it.
        """
        if not child.alive or child.has_leftovers or recycle.is_due(child.jobs, child.memory):
            self.dismiss(child)
            return False
        self._idle[process_settings].append(child)
        return True

    def replace(self, process_settings: ProcessSettings, pause: Callable[[], Awaitable[None]]) -> None:
        """Start a child after a pause, in place of one that ended, so that the next attempt finds it warm.

        One is enough, and none is needed while another is idle.
        """
        if self._idle[process_settings] or process_settings in self._replacing:
            return
        task = asyncio.create_task(self._replace(process_settings, pause), name="replacement")
        self._replacing[process_settings] = task
        task.add_done_callback(lambda _: self._replacing.pop(process_settings, None))

    async def _replace(self, process_settings: ProcessSettings, pause: Callable[[], Awaitable[None]]) -> None:
        await pause()
        try:
            child = await ChildProcess.start(process_settings)
        except (isolated.UserUnavailable, OSError) as error:  # the next attempt reports it
            _log.warning(
                "A child process could not be replaced.", action="agent.not_replaced", reason=str(error)
            )
            return
        self._idle[process_settings].append(child)
        _log.info("A child process was replaced.", action="agent.child_replaced", pid=child.pid)

    def dismiss(self, child: "ChildProcess") -> None:
        """Close a child, without waiting for that."""
        task = asyncio.create_task(child.close(), name="dismissal")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all children, and wait until they are gone."""
        replacing = set(self._replacing.values())
        for task in replacing:
            task.cancel()
        if replacing:
            await asyncio.wait(replacing)
        idle, self._idle = self._idle, defaultdict(list)
        for children in idle.values():
            for child in children:
                self.dismiss(child)
        if self._closing:
            await asyncio.wait(set(self._closing))


class ChildDied(Exception):
    """The child ended before its attempt did. `code` is its exit code, or a signal as a negative number."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"the child process ended: {code}")
        self.code = code


class ChildProcess(isolated.IsolatedProcess):
    """A Python process, which runs one handler after another.

    Spawned, never forked: a fork would carry the agent's threads and connections in an unknown state.
    """

    def __init__(self, spawned: isolated.Spawned, output: CapturedOutput, stacks: IO[bytes]) -> None:
        super().__init__(spawned, output)
        self._output, self._stacks = output, stacks
        self._stacks_answer: asyncio.Future[str] | None = None
        self.jobs = self.memory = 0
        self.has_leftovers = self._ready = False

    @classmethod
    async def start(cls, process_settings: ProcessSettings) -> Self:
        """Start a child. Raises UserUnavailable if it cannot run as its user."""
        user = isolated.resolve_user(process_settings.user)
        identity = json.dumps({"umask": process_settings.umask, "user": user and [user.pw_uid, user.pw_gid]})
        output = CapturedOutput(forward_to=isolated.STDERR)
        stacks = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        module, file = ("-m", "warrener_agent.executors.child"), str(stacks.fileno())
        try:
            spawned = await isolated.spawn(
                lambda connection: [*module, str(connection), file, identity],
                (output, output),
                stdin=asyncio.subprocess.DEVNULL,
                environment=isolated.process_environment(process_settings, user),
                files=(stacks.fileno(),),
            )
        except BaseException:
            stacks.close()
            raise
        return cls(spawned, output, stacks)

    @property
    def alive(self) -> bool:
        return self._process.returncode is None and not self._reader.at_eof()

    async def run(
        self, assignment: Frame, limits: Limits, handler_port: HandlerPort, log: LogBuffer
    ) -> errors.HandlerResult:
        """Let the child run one handler, and answer the handler's calls. Raises ChildDied, with nothing left
        of the child."""
        self._output.clear()
        os.ftruncate(self._stacks.fileno(), 0)
        os.lseek(self._stacks.fileno(), 0, os.SEEK_SET)
        if self._group is not None:
            self._group.limit(limits)
        self._oom_kills = self._count_oom_kills()
        self._output.listener = partial(log.add_output, "output")
        try:
            self._send(assignment)
            while True:
                (size,) = HEADER.unpack(await self._reader.readexactly(HEADER.size))
                frame = unpack(await self._reader.readexactly(size))
                if (ended := frame.get("ended")) is not None:
                    self.jobs, self.memory = self.jobs + 1, frame["memory"]
                    self.has_leftovers = frame["left"]
                    return _parse_result(ended)
                if "ready" in frame:
                    self._ready = True
                    handler_port.alive()
                elif "stacks" in frame:
                    if self._stacks_answer is not None and not self._stacks_answer.done():
                        self._stacks_answer.set_result(frame["stacks"])
                elif "progress" in frame:
                    handler_port.progress(*frame["progress"])
                elif "alive" in frame:
                    handler_port.alive()
                elif "checkpoint" in frame:
                    handler_port.checkpoint(frame["checkpoint"])
                else:
                    self._send(await _serve(handler_port, frame))
        except (asyncio.IncompleteReadError, ConnectionError):
            await self.kill()
            raise ChildDied(self._process.returncode) from None
        finally:
            self._output.drain()  # the handler's last lines
            self._output.listener = None

    def record(self) -> FlightRecord:
        return record_processes(self._output, (), self._written())

    async def capture(self) -> FlightRecord:
        pids = self.members()
        return record_processes(self._output, pids, await self._request_stacks())

    async def close(self) -> None:
        await super().close()
        self._stacks.close()

    async def _request_stacks(self) -> str:
        self._stacks_answer = asyncio.get_running_loop().create_future()
        try:
            self._send({"stacks": True})
            return await asyncio.wait_for(self._stacks_answer, _ANSWER_TIMEOUT)
        except TimeoutError:
            return await self._signal_for_stacks()
        except ConnectionError:
            return self._written()

    async def _signal_for_stacks(self) -> str:
        """Let the child's signal handler in C write the stacks: no Python runs in the child."""
        if not self._ready:  # it has no signal handler yet
            return ""
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, SIGNAL)
        before = ""
        for _ in range(10):
            await asyncio.sleep(_WRITE_TIMEOUT / 10)
            if (written := self._written()) and written == before:
                break
            before = written
        return before

    def _written(self) -> str:
        return os.pread(self._stacks.fileno(), 1 << 16, 0).decode(errors="replace")

    def _send(self, frame: Frame) -> None:
        self._writer.write(pack(frame))


async def _serve(handler_port: HandlerPort, frame: Frame) -> Frame:
    """Answer one call of the handler; an error goes back to the handler."""
    try:
        if "execute" in frame:
            answer: Any = await handler_port.execute(*frame["execute"])
        else:
            requested = frame["request"]
            requested["arguments"] = json.loads(requested["arguments"])
            answer = handler_port.request(ChildJobSpec(**requested))
    except Exception as error:  # noqa: BLE001 - the handler gets it, whatever it is
        kind = type(error)
        return {"to": frame["call"], "error": [kind.__module__, kind.__qualname__, str(error)]}
    return {"to": frame["call"], "answer": answer}


def _parse_result(values: dict[str, Any]) -> errors.HandlerResult:
    if "error" in values:
        handler_signal = values["instead"] and HandlerSignal(values["instead"])
        return errors.HandlerRaised(
            ErrorInfo.model_validate(values["error"]), values["retry_after_seconds"], handler_signal
        )
    return errors.HandlerReturned(values["result"])
