"""The child process: `python -m warrener_agent.executors.child FD FD IDENTITY`, started by the agent alone.

The first FD is the connection, the second the file for its stacks; IDENTITY is JSON, its user and its umask.
"""

import asyncio
import inspect
import json
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from time import monotonic
from typing import Any, NoReturn
from uuid import UUID

from pydantic import ValidationError

from warrener_agent.context import AttemptFacts, ChildJobSpec, Parameters
from warrener_agent.decisions.errors import HandlerRaised, HandlerResult, describe_error
from warrener_agent.definitions.job import find_definition
from warrener_agent.definitions.signature import read_signature
from warrener_agent.executors import sandbox
from warrener_agent.executors.base import HandlerCall, call, call_blocking
from warrener_agent.executors.flight_record import Stacks
from warrener_agent.executors.frames import HEADER, TRACE_VARIABLES, Frame, pack, rebuild_error, unpack
from warrener_agent.executors.process_tree import kill_below
from warrener_agent.executors.program_supervisor import resume_without_parent, switch_user
from warrener_agent.log_buffer import attempt_fields
from warrener_contracts.events import AttemptDispatchedData
from warrener_runtime import log_output, log_scopes
from warrener_runtime.log_scopes import LoggedLine
from warrener_runtime.telemetry import TraceContext
from warrener_runtime.telemetry.baggage import attach_baggage
from warrener_runtime.telemetry.spans import Span

_THROTTLE_INTERVAL = 0.1
"""Seconds between two values. The agent publishes one a second: more would only keep it busy reading."""


class ParentChannel:
    """The connection to the agent.

    One thread reads. It ends the process when the agent is gone, whatever the handler does at that moment, so
    that no orphan goes on working; and it sends the stacks of the other threads on request.
    """

    def __init__(self, connection: socket.socket, stacks: Stacks) -> None:
        self._connection = connection
        self.stacks = stacks
        self._send_lock = threading.Lock()
        self._call_ids = count()
        self._answers: dict[int, queue.SimpleQueue[Frame]] = {}
        self.assignments: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        threading.Thread(target=self._read_frames, name="warrener-channel", daemon=True).start()

    def send(self, frame: Frame) -> None:
        body = pack(frame)
        with self._send_lock:
            self._connection.sendall(body)

    def call_agent(self, frame: Frame) -> Any:
        """Send a call to the agent and return its answer. Raises the error that happened there."""
        number = next(self._call_ids)
        waiting = self._answers[number] = queue.SimpleQueue[Frame]()
        self.send({**frame, "call": number})
        answer = waiting.get()
        if "error" in answer:
            raise rebuild_error(*answer["error"])
        return answer["answer"]

    def _read_frames(self) -> None:
        try:
            while True:
                (size,) = HEADER.unpack(self._read(HEADER.size))
                frame = unpack(self._read(size))
                if "to" in frame:
                    self._answers.pop(frame["to"]).put(frame)
                elif "stacks" in frame:
                    self.send({"stacks": self.stacks.text()})
                else:
                    self.assignments.put(frame)
        except (OSError, EOFError):
            _end()

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._connection.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)


class Throttle:
    """Passes on the first value at once, and of values that follow quickly the last, which always arrives."""

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._next = 0.0
        self._latest: Any = None
        self._timer: threading.Timer | None = None

    def put(self, value: Any) -> None:
        with self._lock:
            self._latest = value
            wait = self._next - monotonic()
            if self._timer is not None:
                return
            if wait > 0:
                self._timer = threading.Timer(wait, self.flush)
                self._timer.daemon = True
                self._timer.start()
                return
            self._pass_on()

    def flush(self) -> None:
        """Pass on the value that waits, at once."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
                self._pass_on()

    def _pass_on(self) -> None:
        self._next = monotonic() + _THROTTLE_INTERVAL
        self._send(self._latest)


class ChannelHandlerPort:
    """A `HandlerPort` in the child process: it passes each call to the agent."""

    def __init__(self, channel: ParentChannel) -> None:
        self._channel = channel
        self._progress = Throttle(lambda progress_value: channel.send({"progress": progress_value}))
        self._alive = Throttle(lambda _: channel.send({"alive": True}))

    async def execute(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]:
        return await asyncio.to_thread(self.execute_blocking, statement, parameters)

    def execute_blocking(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]:
        values = parameters if isinstance(parameters, Mapping) else list(parameters)
        rows: list[Mapping[str, Any]] = self._channel.call_agent({"execute": [statement, values]})
        return rows

    def request(self, spec: ChildJobSpec) -> UUID:
        job_id: UUID = self._channel.call_agent(
            {
                "request": {
                    "job_type": spec.job_type,
                    "arguments": json.dumps(spec.arguments),
                    "key": spec.key,
                    "queue": spec.queue,
                    "delay_seconds": spec.delay_seconds,
                }
            }
        )
        return job_id

    def progress(self, fraction: float, note: str) -> None:
        self._progress.put([fraction, note])

    def alive(self) -> None:
        self._alive.put(None)

    def checkpoint(self, state_text: str) -> None:
        self._channel.send({"checkpoint": state_text})

    def lease_ended(self) -> bool:
        """False: the agent checks the lease at each statement and request."""
        return False

    @property
    def stopping(self) -> bool:
        """False: a child that is to stop is killed."""
        return False

    def close(self) -> None:
        """Send the last progress before the end of the handler is reported."""
        self._progress.flush()
        self._alive.flush()


def perform(assignment: Frame, channel: ParentChannel) -> HandlerResult:
    try:
        with sandbox.apply_limits(**assignment["limits"]), _continued_trace(assignment["trace"]):
            return _perform(assignment, channel)
    except BaseException as error:  # noqa: BLE001 - there was no memory to describe it where it was raised
        return describe_error(error)


class _WrittenLog:
    """The log scope of an attempt in this process, whose output the agent reads."""

    def __init__(self, dispatch: AttemptDispatchedData) -> None:
        self.fields: Mapping[str, object] = attempt_fields(dispatch)

    def hide(self, text: str) -> str:
        return text  # the agent does

    def capture(self, line: LoggedLine) -> None: ...


def _perform(assignment: Frame, channel: ParentChannel) -> HandlerResult:
    fields, arguments = json.loads(assignment["dispatch"]), json.loads(assignment["arguments"])
    dispatch = AttemptDispatchedData(**fields, arguments=arguments)
    facts = AttemptFacts(dispatch, assignment["deadline"], json.loads(assignment["checkpoint"]))
    # Records as JSON to the standard error, whatever the agent's own format is: the agent reads them. A later
    # configuration of a handler's module stays.
    if log_scopes.find_scope() is None:
        level: str = assignment["log_level"]
        log_output.configure("warrener-agent", level=level, scope_level=level, stream=sys.stderr)
    log_scopes.set_process_scope(_WrittenLog(dispatch))
    sys.path[:] = assignment["path"]
    try:
        definition = find_definition(assignment["module"], assignment["qualname"], dispatch.job_type)
    except BaseException as error:  # noqa: BLE001 - a module may do anything when it is imported
        return describe_error(error)
    handler_port = ChannelHandlerPort(channel)
    if definition.declaration.policy.heartbeat_timeout is not None:
        handler_port.alive()  # starting the child and importing its modules may have taken long
    handler_call = HandlerCall(definition, facts, handler_port)
    try:
        if inspect.iscoroutinefunction(definition.handler):
            return asyncio.run(channel.stacks.track_tasks(call(handler_call)))
        return call_blocking(handler_call)
    finally:
        handler_port.close()


@contextmanager
def _continued_trace(variables: Mapping[str, str]) -> Generator[None]:
    """Make the attempt's span the current one, for the handler and for processes that it starts."""
    for name in TRACE_VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(variables)
    traceparent, tracestate, baggage = map(variables.get, TRACE_VARIABLES)
    with Span(TraceContext(traceparent, tracestate)):
        attach_baggage(baggage)
        yield


def serve(channel: ParentChannel) -> NoReturn:
    """Run one assignment after another, until the agent is gone."""
    while True:
        ended = perform(channel.assignments.get(), channel)
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, ValueError, OSError):  # a handler may have closed or replaced it
                stream.flush()
        state = {"left": sandbox.has_children(), "memory": sandbox.memory()}
        if isinstance(ended, HandlerRaised):
            error = ended.error.model_dump(mode="json")
            details = {"retry_after_seconds": ended.retry_after_seconds, "instead": ended.handler_signal}
            channel.send({"ended": {"error": error, **details}, **state})
        else:
            channel.send({"ended": {"result": ended.result_text}, **state})


def _end() -> NoReturn:
    kill_below(os.getpid())  # the processes that the handler started
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _sample_handler(count: int, names: list[str]) -> dict[str, int]:
    return dict.fromkeys(names, count)


def _import_late_modules() -> None:
    """Serve a sample within a span: pydantic, traceback and OpenTelemetry import modules when first used.

    Another user may not be allowed to read the files of this installation.
    """
    signature = read_signature(_sample_handler, "sample")
    with Span(TraceContext(f"00-{1:032x}-{1:016x}-00")):
        signature.write(_sample_handler(**signature.read({"count": 1, "names": ["a"]})))
    try:
        signature.read({})
    except ValidationError as error:
        describe_error(error)


def _begin(connection: int, stacks: int, identity: Frame) -> NoReturn:
    sandbox.prepare()
    if identity["user"] is not None:
        _import_late_modules()
    switch_user(identity["user"], identity["umask"])
    resume_without_parent()  # after the change of the user, which would undo it
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:  # a pipe by now: a line must not wait for more lines
        reconfigure(line_buffering=True)
    channel = ParentChannel(socket.socket(fileno=connection), Stacks(stacks))
    channel.send({"ready": True})
    serve(channel)


if __name__ == "__main__":
    _begin(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
