"""An attempt in a process of its own: how that is started, limited, killed and recorded, and how many crashes
suspend its job type."""

import asyncio
import os
import pwd
import socket
import sys
from abc import ABC, abstractmethod
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import IO, Any, Generic, NamedTuple, TypeVar

from warrener_agent.decisions.errors import HandlerEnd, HandlerRaised, HandlerResult, with_flight_record
from warrener_agent.definitions.isolation import Limits, ProcessSettings
from warrener_agent.executors.base import HandlerCall
from warrener_agent.executors.flight_record import CapturedOutput
from warrener_agent.executors.frames import TRACE_VARIABLES
from warrener_agent.executors.limits import Cgroup, kernel_oom_kills, new_group, wait_until_exceeded
from warrener_agent.executors.process_tree import kill_tree, tree
from warrener_contracts.events import FlightRecord
from warrener_runtime.clock import Clock, SystemClock
from warrener_runtime.lifecycle import NotReady
from warrener_runtime.lifecycle.components import cancel
from warrener_runtime.logs import get_logger

_log = get_logger("agent.restarts")

STDERR = 2
_FIRST, _CEILING = 0.1, 5.0  # seconds of back-off
PASSED_VARIABLES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "TERM", "LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR"),
    *("TMPDIR", "TMP", "TEMP", "XDG_*_DIRS", "XDG_*_HOME", "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH"),
    *("PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "*_NUM_THREADS"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
)
"""Patterns of the variables that say where things are, and how to write: no secret goes by such a name."""

# -- the user and the environment of a process ---------------------------------------------------------


class UserUnavailable(Exception):
    """The job type's user cannot be used here; the message says why."""


def resolve_user(name: str | None) -> pwd.struct_passwd | None:
    """Return the user called `name`; None for none, or for the agent's own.

    Raises UserUnavailable: to go on as the agent's user would give the handler more rights than declared.
    """
    if name is None:
        return None
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise UserUnavailable(f"expected a user {name} on this machine, found none: create it") from None
    if entry.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise UserUnavailable(
            f"expected to be root to run as {name}, the agent runs as user {os.geteuid()}: start the agent "
            f"as root or as {name}, or leave `user` out"
        )
    return entry


def filter_environment(environment: Mapping[str, str], named: Collection[str]) -> dict[str, str]:
    """Return the variables that are `named`, by name or pattern, and those of `PASSED_VARIABLES`.

    The agent's own trace context passes only by its name.
    """
    patterns = (*PASSED_VARIABLES, *named)
    return {
        name: value
        for name, value in environment.items()
        if name in named
        or (name not in TRACE_VARIABLES and any(fnmatchcase(name, pattern) for pattern in patterns))
    }


def process_environment(settings: ProcessSettings, user: pwd.struct_passwd | None) -> dict[str, str]:
    """Return the variables of the agent that a process with these settings gets, and those that a login of
    its user would set."""
    login = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name} if user else {}
    return filter_environment(os.environ, settings.environment) | login


# -- the crashes of a job type -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RestartLimit:
    """A job type is suspended for `hold` seconds after more than `deaths` deaths in `within` seconds."""

    deaths: int = 10
    within: float = 60.0
    hold: float = 30.0


class Restarts:
    """Counts the crashes of processes by job type, as an OTP supervisor does.

    A process is started again when the next attempt needs one; attempts of a suspended type go back to the
    queue, uncharged.
    """

    def __init__(self, clock: Clock | None = None, limit: RestartLimit | None = None) -> None:
        self._clock = clock or SystemClock()
        self._limit = limit or RestartLimit()
        self._deaths: defaultdict[str, deque[float]] = defaultdict(deque)
        self._in_a_row: Counter[str] = Counter()
        self._suspended_until: dict[str, float] = {}

    def record_crash(self, job_type: str) -> None:
        """Note that a process of this type died, and its agent did not kill it."""
        now, limit = self._clock.monotonic(), self._limit
        deaths = self._deaths[job_type]
        deaths.append(now)
        self._in_a_row[job_type] += 1
        while deaths[0] < now - limit.within:
            deaths.popleft()
        if len(deaths) > limit.deaths and job_type not in self._suspended_until:
            self._suspended_until[job_type] = now + limit.hold
            _log.error(
                "A job type was suspended: its processes die too often. Other agents may run its attempts.",
                action="agent.job_type_suspended",
                job_type=job_type,
                crashes=len(deaths),
                within=limit.within,
                hold=limit.hold,
            )

    def record_clean_exit(self, job_type: str) -> None:
        """Note that a process has reported the end of its attempt: the next starts without a pause."""
        self._in_a_row.pop(job_type, None)

    async def pause(self, job_type: str) -> None:
        """Wait before the next process of this type: longer with each crash in a row."""
        in_a_row = self._in_a_row.get(job_type, 0)
        if in_a_row:
            until = self._deaths[job_type][-1] + min(_CEILING, _FIRST * 2.0 ** min(in_a_row - 1, 20))
            await self._clock.sleep(max(0.0, until - self._clock.monotonic()))

    def is_suspended(self, job_type: str) -> bool:
        """True if attempts of this type must not begin now."""
        until = self._suspended_until.get(job_type)
        if until is None:
            return False
        if self._clock.monotonic() < until:
            return True
        del self._suspended_until[job_type]
        self._deaths[job_type].clear()
        self._in_a_row.pop(job_type, None)
        _log.info("A suspended job type is tried again.", action="agent.job_type_resumed", job_type=job_type)
        return False

    async def check(self) -> None:
        """Check the agent's health. Raises NotReady while types are suspended."""
        held = [name for name in list(self._suspended_until) if self.is_suspended(name)]
        if held:
            raise NotReady(f"processes die too often; held for now: {', '.join(sorted(held))}")


# -- a process -----------------------------------------------------------------------------------------


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

    def __init__(
        self, handler_call: HandlerCall, restarts: Restarts, environment: Sequence[str] = ()
    ) -> None:
        """`environment`: variables of all job types, beside those that the type names."""
        self._call, self._restarts = handler_call, restarts
        self._job_type, isolation = handler_call.definition.name, handler_call.definition.isolation
        settings = isolation.process_settings
        settings = replace(settings, environment=(*settings.environment, *environment))
        self._isolation = replace(isolation, process_settings=settings)
        self._process: P | None = None
        self.flight_record: FlightRecord | None = None
        self.done: asyncio.Task[HandlerEnd] = asyncio.create_task(self._run())

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
