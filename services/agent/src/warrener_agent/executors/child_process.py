"""One child process, seen from the agent."""

import asyncio
import json
import os
import socket
import sys
import tempfile
from contextlib import suppress
from typing import IO, Any, Self

from warrener_agent.context import FollowUpSpec, HandlerPort
from warrener_agent.executors.cgroup import Cgroup, kernel_oom_kills, new_group
from warrener_agent.executors.environment import filter_environment
from warrener_agent.executors.exit_info import ExitInfo
from warrener_agent.executors.flight_recorder import FlightRecorder
from warrener_agent.executors.frames import HEADER, Frame, pack, unpack
from warrener_agent.executors.output import CapturedOutput
from warrener_agent.executors.port import HandlerRaised, HandlerResult, HandlerReturned
from warrener_agent.executors.stacks import SIGNAL
from warrener_agent.executors.system_user import resolve_user
from warrener_agent.executors.tree import kill_tree, tree
from warrener_agent.failures import HandlerSignal
from warrener_agent.isolation import Limits, ProcessSettings
from warrener_contracts.events import ErrorInfo, FlightRecord

_STDERR = 2
_ANSWER_TIMEOUT = 0.4  # seconds that a child may take to tell its stacks itself
_WRITE_TIMEOUT = 0.2  # and, if it does not, to write them at a signal


class ChildDied(Exception):
    """It has ended before its attempt; `exit_info` says how."""

    def __init__(self, exit_info: ExitInfo) -> None:
        super().__init__(f"the child process ended: {exit_info}")
        self.exit_info = exit_info


class ChildProcess:
    """A Python process of its own session, which runs one handler after another. Spawned, never forked: a
    fork would carry the agent's threads and connections in an unknown state."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        output: CapturedOutput,
        stacks: IO[bytes],
        group: Cgroup | None,
    ) -> None:
        self._process, self._output, self._stacks, self._group = process, output, stacks, group
        self._reader, self._writer = streams
        self._recorder = FlightRecorder(output)
        self._stacks_answer: asyncio.Future[str] | None = None
        self._oom_kills = 0
        self.jobs = self.memory = 0
        self.has_leftovers = self._ready = False

    @classmethod
    async def start(cls, process_settings: ProcessSettings) -> Self:
        """Raises AccountError where it cannot run as its user."""
        user = resolve_user(process_settings.user)
        ours, theirs = socket.socketpair()
        output = CapturedOutput(forward_to=_STDERR)
        stacks = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "warrener_agent.executors.child",
                    str(theirs.fileno()),
                    str(stacks.fileno()),
                    json.dumps({"umask": process_settings.umask, "user": user and [user.uid, user.gid]}),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output.writing,
                    stderr=output.writing,
                    pass_fds=(theirs.fileno(), stacks.fileno()),
                    start_new_session=True,  # what it starts dies with it, and Ctrl-C is ours alone
                    env=filter_environment(os.environ, process_settings.environment)
                    | (user.environment if user else {}),
                )
            output.close_writing_end()
            group = new_group()
            if group is not None:
                group.add(process.pid)
            return cls(process, await asyncio.open_connection(sock=ours), output, stacks, group)
        except BaseException:
            ours.close()  # a child that was started nevertheless ends by that
            output.close()
            stacks.close()
            raise

    @property
    def alive(self) -> bool:
        return self._process.returncode is None and not self._reader.at_eof()

    @property
    def pid(self) -> int:
        return self._process.pid

    def members(self) -> list[int]:
        """It, and all that it has started."""
        return (self._group.members() if self._group else []) or tree(self.pid)

    async def run(self, assignment: Frame, limits: Limits, handler_port: HandlerPort) -> HandlerResult:
        """Let it run one handler, and serve what the handler asks. Raises ChildDied, with nothing left of
        it."""
        self._begin(limits)
        try:
            self._send(assignment)
            while True:
                frame = await self._receive()
                if (ended := frame.get("ended")) is not None:
                    self.jobs, self.memory = self.jobs + 1, frame["memory"]
                    self.has_leftovers = frame["left"]
                    return _parse_result(ended)
                if "ready" in frame:
                    self._ready = True
                    handler_port.alive()
                elif "stacks" in frame:
                    self._set_stacks(frame["stacks"])
                elif "progress" in frame:
                    self._recorder.progress(*frame["progress"])
                    handler_port.progress(*frame["progress"])
                elif "alive" in frame:
                    handler_port.alive()
                elif "checkpoint" in frame:
                    handler_port.checkpoint(frame["checkpoint"])
                else:
                    self._send(await _serve(handler_port, frame))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ChildDied(await self._exit_info()) from None

    def record(self) -> FlightRecord:
        """What it has left behind, now that it is dead."""
        return self._recorder.record((), self._written())

    async def capture(self) -> FlightRecord:
        """What can be seen of it while it runs, even if it is stuck. Takes half a second at most."""
        pids = self.members()
        return self._recorder.record(pids, await self._request_stacks())

    async def kill(self) -> None:
        """End it and all it has started, now."""
        if self._group is not None:
            self._group.kill()
        kill_tree(self._process.pid)
        await self._process.wait()
        self._output.drain()
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def close(self) -> None:
        """Kill it and let go of all that it held; nothing can be asked of it any more."""
        await self.kill()
        self._output.close()
        self._stacks.close()
        if self._group is not None:
            await asyncio.to_thread(self._group.remove)

    def _begin(self, limits: Limits) -> None:
        self._recorder.begin()
        os.ftruncate(self._stacks.fileno(), 0)
        os.lseek(self._stacks.fileno(), 0, os.SEEK_SET)
        if self._group is not None:
            self._group.limit(limits)
        self._oom_kills = self._count_oom_kills()

    def _count_oom_kills(self) -> int:
        return self._group.oom_kills() if self._group is not None else kernel_oom_kills()

    async def _exit_info(self) -> ExitInfo:
        await self.kill()
        return ExitInfo(self._process.returncode, self._count_oom_kills() > self._oom_kills)

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
        """It is stuck in a call that lets no Python run: its signal handler in C tells where."""
        if not self._ready:  # it has no such handler yet
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

    def _set_stacks(self, stacks: str) -> None:
        if self._stacks_answer is not None and not self._stacks_answer.done():
            self._stacks_answer.set_result(stacks)

    def _send(self, frame: Frame) -> None:
        self._writer.write(pack(frame))

    async def _receive(self) -> Frame:
        (size,) = HEADER.unpack(await self._reader.readexactly(HEADER.size))
        return unpack(await self._reader.readexactly(size))


async def _serve(handler_port: HandlerPort, frame: Frame) -> Frame:
    """Answer one question of the handler; what goes wrong goes back to the handler."""
    try:
        if "execute" in frame:
            answer: Any = await handler_port.execute(*frame["execute"])
        else:
            answer = handler_port.request(_parse_follow_up(frame["request"]))
    except Exception as error:  # noqa: BLE001 - whatever it is, the handler shall see it
        kind = type(error)
        return {"to": frame["ask"], "error": [kind.__module__, kind.__qualname__, str(error)]}
    return {"to": frame["ask"], "answer": answer}


def _parse_follow_up(values: dict[str, Any]) -> FollowUpSpec:
    return FollowUpSpec(**{**values, "arguments": json.loads(values["arguments"])})


def _parse_result(values: dict[str, Any]) -> HandlerResult:
    if "error" in values:
        handler_signal = values["instead"] and HandlerSignal(values["instead"])
        return HandlerRaised(
            ErrorInfo.model_validate(values["error"]), values["retry_after_seconds"], handler_signal
        )
    return HandlerReturned(values["result"])
