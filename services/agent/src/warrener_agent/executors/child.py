"""The child process: `python -m warrener_agent.executors.child FD`, started by the agent and by nobody
else."""

import asyncio
import json
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from itertools import count
from typing import Any, NoReturn
from uuid import UUID

from warrener_agent.context import AttemptFacts, Parameters, Wish
from warrener_agent.executors.call import call_blocking
from warrener_agent.executors.failure import failure
from warrener_agent.executors.frames import HEADER, Frame, pack, unpack
from warrener_agent.executors.pace import Pace
from warrener_agent.executors.port import Ended, Raised
from warrener_agent.executors.remote_error import rebuilt
from warrener_agent.kinds import recall


class Line:
    """The connection to the agent. One thread reads: it ends the process when the agent is gone, whatever the
    handler does at that moment, so that no orphan goes on working."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
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

    def checkpoint(self, state_text: str) -> None:
        self._line.say({"checkpoint": state_text})

    @property
    def stopping(self) -> bool:
        """Nobody is asked here: a child that is to stop is killed."""
        return False

    def close(self) -> None:
        """The handler has ended: its last word goes out before that is told."""
        self._progress.flush()


def perform(assignment: Frame, line: Line) -> Ended:
    """Find the handler, and run it."""
    facts = AttemptFacts(**assignment["facts"], last_checkpoint=json.loads(assignment["checkpoint"]))
    sys.path[:] = assignment["path"]
    try:
        kind = recall(assignment["module"], assignment["qualname"], facts.job_type)
    except BaseException as error:  # noqa: BLE001 - a module may do anything when it is imported
        return failure(error)
    desk = LineDesk(line)
    try:
        return call_blocking(kind, facts, json.loads(assignment["arguments"]), desk)
    finally:
        desk.close()


def serve(line: Line) -> NoReturn:
    """One assignment after another, until the agent is gone."""
    while True:
        ended = perform(line.assignments.get(), line)
        if isinstance(ended, Raised):
            error = ended.error.model_dump(mode="json")
            wish = {"retry_after_seconds": ended.retry_after_seconds, "instead": ended.instead}
            line.say({"ended": {"error": error, **wish}})
        else:
            line.say({"ended": {"result": ended.result_text}})


def _end() -> NoReturn:
    os.killpg(0, signal.SIGKILL)  # what the handler has started goes too
    os._exit(1)


if __name__ == "__main__":
    serve(Line(socket.socket(fileno=int(sys.argv[1]))))
