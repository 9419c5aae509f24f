"""One child process, seen from the agent."""

import asyncio
import json
import os
import socket
import sys
import tempfile
from contextlib import suppress
from typing import IO, Any, Self

from warrener_agent.context import Desk, Wish
from warrener_agent.executors.account import account
from warrener_agent.executors.cgroup import Cgroup, kernel_oom_kills, new_group
from warrener_agent.executors.death import Death
from warrener_agent.executors.environment import passed_on
from warrener_agent.executors.flight import Recorder
from warrener_agent.executors.frames import HEADER, Frame, pack, unpack
from warrener_agent.executors.output import Output
from warrener_agent.executors.port import Ended, Raised, Returned
from warrener_agent.executors.stacks import SIGNAL
from warrener_agent.executors.tree import kill_tree, tree
from warrener_agent.failures import Instead
from warrener_agent.isolation import Limits, Surroundings
from warrener_contracts.events import ErrorInfo, FlightRecord

_STDERR = 2
_ASKED = 0.4  # seconds that a child may take to tell its stacks itself
_WRITTEN = 0.2  # and, if it does not, to write them at a signal


class ChildDied(Exception):
    """It has ended before its attempt; `death` says how."""

    def __init__(self, death: Death) -> None:
        super().__init__(f"the child process ended: {death}")
        self.death = death


class ChildProcess:
    """A Python process of its own session, which runs one handler after another. Spawned, never forked: a
    fork would carry the agent's threads and connections in an unknown state."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        output: Output,
        stacks: IO[bytes],
        group: Cgroup | None,
    ) -> None:
        self._process, self._output, self._stacks, self._group = process, output, stacks, group
        self._reader, self._writer = streams
        self._recorder = Recorder(output)
        self._told: asyncio.Future[str] | None = None
        self._oom_kills = 0
        self.jobs = self.memory = 0
        self.left_something = self._ready = False

    @classmethod
    async def start(cls, surroundings: Surroundings) -> Self:
        """Raises AccountError where it cannot run as its user."""
        user = account(surroundings.user)
        ours, theirs = socket.socketpair()
        output = Output(onward=_STDERR)
        stacks = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "warrener_agent.executors.child",
                    str(theirs.fileno()),
                    str(stacks.fileno()),
                    json.dumps({"umask": surroundings.umask, "user": user and [user.uid, user.gid]}),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output.writing,
                    stderr=output.writing,
                    pass_fds=(theirs.fileno(), stacks.fileno()),
                    start_new_session=True,  # what it starts dies with it, and Ctrl-C is ours alone
                    env=passed_on(os.environ, surroundings.environment) | (user.environment if user else {}),
                )
            output.handed_over()
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

    async def run(self, assignment: Frame, limits: Limits, desk: Desk) -> Ended:
        """Let it run one handler, and serve what the handler asks. Raises ChildDied, with nothing left of
        it."""
        self._begin(limits)
        try:
            self._say(assignment)
            while True:
                frame = await self._hear()
                if (ended := frame.get("ended")) is not None:
                    self.jobs, self.memory = self.jobs + 1, frame["memory"]
                    self.left_something = frame["left"]
                    return _ended(ended)
                if "ready" in frame:
                    self._ready = True
                    desk.alive()
                elif "stacks" in frame:
                    self._tell(frame["stacks"])
                elif "progress" in frame:
                    self._recorder.progress(*frame["progress"])
                    desk.progress(*frame["progress"])
                elif "alive" in frame:
                    desk.alive()
                elif "checkpoint" in frame:
                    desk.checkpoint(frame["checkpoint"])
                else:
                    self._say(await _serve(desk, frame))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ChildDied(await self._death()) from None

    def record(self) -> FlightRecord:
        """What it has left behind, now that it is dead."""
        return self._recorder.record((), self._written())

    async def capture(self) -> FlightRecord:
        """What can be seen of it while it runs, even if it is stuck. Takes half a second at most."""
        pids = self.members()
        return self._recorder.record(pids, await self._ask_for_stacks())

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

    async def _death(self) -> Death:
        await self.kill()
        return Death(self._process.returncode, self._count_oom_kills() > self._oom_kills)

    async def _ask_for_stacks(self) -> str:
        self._told = asyncio.get_running_loop().create_future()
        try:
            self._say({"stacks": True})
            return await asyncio.wait_for(self._told, _ASKED)
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
            await asyncio.sleep(_WRITTEN / 10)
            if (written := self._written()) and written == before:
                break
            before = written
        return before

    def _written(self) -> str:
        return os.pread(self._stacks.fileno(), 1 << 16, 0).decode(errors="replace")

    def _tell(self, stacks: str) -> None:
        if self._told is not None and not self._told.done():
            self._told.set_result(stacks)

    def _say(self, frame: Frame) -> None:
        self._writer.write(pack(frame))

    async def _hear(self) -> Frame:
        (size,) = HEADER.unpack(await self._reader.readexactly(HEADER.size))
        return unpack(await self._reader.readexactly(size))


async def _serve(desk: Desk, frame: Frame) -> Frame:
    """Answer one question of the handler; what goes wrong goes back to the handler."""
    try:
        if "execute" in frame:
            answer: Any = await desk.execute(*frame["execute"])
        else:
            answer = desk.request(_wish(frame["request"]))
    except Exception as error:  # noqa: BLE001 - whatever it is, the handler shall see it
        kind = type(error)
        return {"to": frame["ask"], "error": [kind.__module__, kind.__qualname__, str(error)]}
    return {"to": frame["ask"], "answer": answer}


def _wish(told: dict[str, Any]) -> Wish:
    return Wish(**{**told, "arguments": json.loads(told["arguments"])})


def _ended(told: dict[str, Any]) -> Ended:
    if "error" in told:
        instead = told["instead"] and Instead(told["instead"])
        return Raised(ErrorInfo.model_validate(told["error"]), told["retry_after_seconds"], instead)
    return Returned(told["result"])
