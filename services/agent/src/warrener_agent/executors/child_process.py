"""One child process, seen from the agent."""

import asyncio
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any, Self

from warrener_agent.context import Desk, Wish
from warrener_agent.executors.failure import crashed
from warrener_agent.executors.frames import HEADER, Frame, pack, unpack
from warrener_agent.executors.port import Ended, Raised, Returned
from warrener_agent.failures import Instead
from warrener_contracts.events import ErrorInfo


class ChildProcess:
    """A Python process of its own session, which runs one handler after another. Spawned, never forked: a
    fork would carry the agent's threads and connections in an unknown state."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process, self._reader, self._writer = process, reader, writer

    @classmethod
    async def start(cls) -> Self:
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "warrener_agent.executors.child",
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # what it starts dies with it, and Ctrl-C is ours alone
            )
        reader, writer = await asyncio.open_connection(sock=ours)
        return cls(process, reader, writer)

    @property
    def alive(self) -> bool:
        return self._process.returncode is None and not self._reader.at_eof()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def run(self, assignment: Frame, desk: Desk) -> Ended:
        """Let it run one handler, and serve what the handler asks until it ends or the child dies."""
        try:
            self._say(assignment)
            while True:
                frame = await self._hear()
                if (ended := frame.get("ended")) is not None:
                    return _ended(ended)
                if "progress" in frame:
                    desk.progress(*frame["progress"])
                elif "checkpoint" in frame:
                    desk.checkpoint(frame["checkpoint"])
                else:
                    self._say(await _serve(desk, frame))
        except (asyncio.IncompleteReadError, ConnectionError):
            await self.kill()
            return crashed(_how(self._process.returncode))

    async def kill(self) -> None:
        """End it and all it has started, now."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

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


def _how(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    return f"was killed by signal {-code} ({signal.Signals(-code).name})"
