"""The child process: `python -m warrener_agent.executors.child FD FD WHO`, started by the agent and by nobody
else. The first is the connection, the second the file for its stacks; WHO is JSON, its user and its umask."""

import asyncio
import inspect
import json
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import Any, NoReturn
from uuid import UUID

from warrener_agent.context import AttemptFacts, Parameters, Wish
from warrener_agent.executors import confine
from warrener_agent.executors.call import call, call_blocking
from warrener_agent.executors.failure import failure
from warrener_agent.executors.frames import HEADER, Frame, pack, unpack
from warrener_agent.executors.pace import Pace
from warrener_agent.executors.port import Ended, Raised
from warrener_agent.executors.remote_error import rebuilt
from warrener_agent.executors.stacks import Stacks
from warrener_agent.executors.tree import kill_below
from warrener_agent.kinds import recall


class Line:
    """The connection to the agent. One thread reads: it ends the process when the agent is gone, whatever the
    handler does at that moment, so that no orphan goes on working, and it tells where the others are."""

    def __init__(self, connection: socket.socket, stacks: Stacks) -> None:
        self._connection = connection
        self.stacks = stacks
        self._speaking = threading.Lock()
        self._numbers = count()
        self._answers: dict[int, queue.SimpleQueue[Frame]] = {}
        self.assignments: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name="warrener-line", daemon=True).start()

    def say(self, frame: Frame) -> None:
        told = pack(frame)
        with self._speaking:
            self._connection.sendall(told)

    def ask(self, frame: Frame) -> Any:
        """Ask the agent and wait for the answer; raises what went wrong there."""
        number = next(self._numbers)
        waiting = self._answers[number] = queue.SimpleQueue[Frame]()
        self.say({**frame, "ask": number})
        answer = waiting.get()
        if "error" in answer:
            raise rebuilt(*answer["error"])
        return answer["answer"]

    def _listen(self) -> None:
        try:
            while True:
                frame = self._hear()
                if "to" in frame:
                    self._answers.pop(frame["to"]).put(frame)
                elif "stacks" in frame:
                    self.say({"stacks": self.stacks.text()})
                else:
                    self.assignments.put(frame)
        except (OSError, EOFError):
            _end()

    def _hear(self) -> Frame:
        (size,) = HEADER.unpack(self._read(HEADER.size))
        return unpack(self._read(size))

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._connection.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)


class LineDesk:
    """The desk, seen from another process."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._progress = Pace(lambda how_far: line.say({"progress": how_far}))
        self._alive = Pace(lambda _: line.say({"alive": True}))

    async def execute(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]:
        return await asyncio.to_thread(self.execute_blocking, statement, parameters)

    def execute_blocking(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]:
        told = parameters if isinstance(parameters, Mapping) else list(parameters)
        rows: list[Mapping[str, Any]] = self._line.ask({"execute": [statement, told]})
        return rows

    def request(self, wish: Wish) -> UUID:
        job_id: UUID = self._line.ask(
            {
                "request": {
                    "job_type": wish.job_type,
                    "arguments": json.dumps(wish.arguments),
                    "key": wish.key,
                    "queue": wish.queue,
                    "delay_seconds": wish.delay_seconds,
                }
            }
        )
        return job_id

    def progress(self, fraction: float, note: str) -> None:
        self._progress.put([fraction, note])

    def alive(self) -> None:
        self._alive.put(None)

    def checkpoint(self, state_text: str) -> None:
        self._line.say({"checkpoint": state_text})

    def lease_ended(self) -> bool:
        """Its agent knows, which is asked with each statement and request."""
        return False

    @property
    def stopping(self) -> bool:
        """Nobody is asked here: a child that is to stop is killed."""
        return False

    def close(self) -> None:
        """The handler has ended: its last word goes out before that is told."""
        self._progress.flush()
        self._alive.flush()


def perform(assignment: Frame, line: Line) -> Ended:
    """Find the handler, and run it within its limits."""
    try:
        with confine.confined(assignment["limits"]):
            return _perform(assignment, line)
    except BaseException as error:  # noqa: BLE001 - there was no memory to say so where it was raised
        return failure(error)


def _perform(assignment: Frame, line: Line) -> Ended:
    facts = AttemptFacts(**assignment["facts"], last_checkpoint=json.loads(assignment["checkpoint"]))
    sys.path[:] = assignment["path"]
    try:
        kind = recall(assignment["module"], assignment["qualname"], facts.job_type)
    except BaseException as error:  # noqa: BLE001 - a module may do anything when it is imported
        return failure(error)
    arguments, desk = json.loads(assignment["arguments"]), LineDesk(line)
    if kind.declaration.policy.heartbeat_timeout is not None:
        desk.alive()  # the child has started and its modules are imported: that may have taken long
    try:
        if inspect.iscoroutinefunction(kind.handler):
            return asyncio.run(line.stacks.in_sight(call(kind, facts, arguments, desk)))
        return call_blocking(kind, facts, arguments, desk)
    finally:
        desk.close()


def serve(line: Line) -> NoReturn:
    """One assignment after another, until the agent is gone."""
    while True:
        ended = perform(line.assignments.get(), line)
        _flush()
        state = {"left": confine.has_children(), "memory": confine.memory()}
        if isinstance(ended, Raised):
            error = ended.error.model_dump(mode="json")
            wish = {"retry_after_seconds": ended.retry_after_seconds, "instead": ended.instead}
            line.say({"ended": {"error": error, **wish}, **state})
        else:
            line.say({"ended": {"result": ended.result_text}, **state})


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError, OSError):  # a handler may have closed or replaced it
            stream.flush()


def _end() -> NoReturn:
    kill_below(os.getpid())  # what the handler has started goes too
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _begin(connection: int, stacks: int, who: Frame) -> NoReturn:
    confine.prepare()
    confine.become(who["user"], who["umask"])
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:  # a pipe by now: what is said shall not wait for more of it
        reconfigure(line_buffering=True)
    line = Line(socket.socket(fileno=connection), Stacks(stacks))
    line.say({"ready": True})
    serve(line)


if __name__ == "__main__":
    _begin(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
