"""An attempt in a process of its own: how that is started, limited, killed and recorded."""

import asyncio
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Generic, NamedTuple, TypeVar

from warrener_agent.decisions.errors import HandlerRaised, HandlerResult, with_flight_record
from warrener_agent.definitions.isolation import Limits
from warrener_agent.executors.base import HandlerCall
from warrener_agent.executors.flight_record import CapturedOutput
from warrener_agent.executors.limits import Cgroup, kernel_oom_kills, new_group, wait_until_exceeded
from warrener_agent.executors.process_tree import kill_tree, tree
from warrener_agent.executors.restarts import Restarts
from warrener_contracts.events import FlightRecord
from warrener_runtime.lifecycle.components import cancel

STDERR = 2


class Spawned(NamedTuple):
    """A new process in a session and a control group of its own, and the agent's end of its connection."""

    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    group: Cgroup | None


async def spawn(
    arguments: Callable[[int], Sequence[str]],
    outputs: tuple[CapturedOutput, CapturedOutput],
    *,
    stdin: IO[bytes] | int,
    environment: Mapping[str, str],
    files: Sequence[int] = (),
    limits: Limits | None = None,
) -> Spawned:
    """Start Python with these arguments, which depend on the descriptor of its connection to the agent.

    It inherits that and `files`. `limits` are those of its control group, if it has one. After an error
    nothing of the process is left, and its outputs are closed.
    """
    ours, theirs = socket.socketpair()
    process: asyncio.subprocess.Process | None = None
    try:
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *arguments(theirs.fileno()),
                stdin=stdin,
                stdout=outputs[0].writing,
                stderr=outputs[1].writing,
                pass_fds=(theirs.fileno(), *files),
                start_new_session=True,  # its descendants die with it, and Ctrl-C reaches the agent alone
                env=environment,
            )
        for output in outputs:
            output.close_writing_end()
        group = new_group()
        if group is not None:
            if limits is not None:
                group.limit(limits)
            group.add(process.pid)
        return Spawned(process, *await asyncio.open_connection(sock=ours), group)
    except BaseException:
        if process is not None:  # before it finds its connection closed, and ends by itself
            kill_tree(process.pid)
        ours.close()
        for output in outputs:
            output.close()
        if process is not None:
            await process.wait()
        raise


class IsolatedProcess(ABC):
    """A process of the agent, with its descendants."""

    def __init__(self, spawned: Spawned, *outputs: CapturedOutput) -> None:
        self._process, self._reader, self._writer, self._group = spawned
        self._outputs = outputs
        self._oom_kills = self._count_oom_kills()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def oom_killed(self) -> bool:
        """True if the kernel has killed for lack of memory since the attempt began."""
        return self._count_oom_kills() > self._oom_kills

    def members(self) -> list[int]:
        """The process and its descendants."""
        return (self._group.members() if self._group else []) or tree(self.pid)

    @abstractmethod
    async def capture(self) -> FlightRecord:
        """Return the flight record of the running process, even a stuck one, within half a second."""

    async def kill(self) -> None:
        """Kill the process and its descendants."""
        if self._group is not None:
            self._group.kill()
        kill_tree(self.pid)
        await self._process.wait()
        for output in self._outputs:
            output.drain()
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def close(self) -> None:
        """Kill the process and release all that it held. It cannot be used afterwards."""
        await self.kill()
        for output in self._outputs:
            output.close()
        if self._group is not None:
            await asyncio.to_thread(self._group.remove)

    def _count_oom_kills(self) -> int:
        return self._group.oom_kills() if self._group is not None else kernel_oom_kills()


P = TypeVar("P", bound=IsolatedProcess)
R = TypeVar("R")


class IsolatedExecution(ABC, Generic[P]):
    """A running handler that has a process, and can always be stopped with it."""

    def __init__(self, handler_call: HandlerCall, restarts: Restarts) -> None:
        self._call, self._restarts = handler_call, restarts
        self._job_type, self._isolation = handler_call.definition.name, handler_call.definition.isolation
        self._process: P | None = None
        self.flight_record: FlightRecord | None = None
        self.done = asyncio.create_task(self._run())

    async def stop(self) -> bool:
        if self._process is not None:
            self.flight_record = await self._process.capture()
        self.done.cancel()
        await asyncio.wait({self.done})
        return True

    @abstractmethod
    async def _run(self) -> HandlerResult:
        """Run the handler in a process, from its start to its end."""

    async def _within_limits(
        self, process: P, work: Coroutine[Any, Any, R], *others: asyncio.Future[Any]
    ) -> R | HandlerRaised | None:
        """Return what `work` returns; None if one of `others` is done first. A process that exceeds a limit
        is killed, and its end described."""
        limits = self._isolation.limits
        waited: set[asyncio.Future[Any]] = {working := asyncio.create_task(work), *others}
        watching = None
        if limits.needs_watching:
            watching = asyncio.create_task(wait_until_exceeded(limits, process.members))
            waited.add(watching)
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            if watching is None or not watching.done():
                return None
            record = await process.capture()
            await process.kill()
            return with_flight_record(watching.result(), record)
        finally:
            await cancel(working)
            await cancel(watching)
