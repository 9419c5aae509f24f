"""One run of a program, seen from the agent."""

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
from math import ceil
from pathlib import Path
from typing import Self

from warrener_agent.executors import program_supervisor
from warrener_agent.executors.cgroup import Cgroup, kernel_oom_kills, new_group
from warrener_agent.executors.environment import filter_environment
from warrener_agent.executors.flight_recorder import FlightRecorder, command_lines
from warrener_agent.executors.output import CapturedOutput, Keep
from warrener_agent.executors.program_end import ProgramEnd
from warrener_agent.executors.sandbox import MEMORY
from warrener_agent.executors.system_user import SystemUser, resolve_user
from warrener_agent.executors.tree import kill_tree, tree
from warrener_agent.isolation import Isolation, Limits
from warrener_agent.program import ProgramCall
from warrener_contracts.events import FlightRecord
from warrener_contracts.topology import MAX_BODY

_STDERR = 2


class ProgramProcess:
    """A program below its keeper, in a session of their own."""

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
    async def start(cls, call: ProgramCall, isolation: Isolation, variables: Mapping[str, str]) -> Self:
        """Raises AccountError where it cannot run as its user."""
        user = resolve_user(isolation.process_settings.user)
        folder = _own_folder(user) if call.cwd is None else None
        ours, theirs = socket.socketpair()
        out, err = CapturedOutput(capacity=MAX_BODY, keep=Keep.FIRST), CapturedOutput(forward_to=_STDERR)
        launch_request = _launch_request(call, isolation, user, str(folder or call.cwd), theirs.fileno())
        environment = {
            **filter_environment(os.environ, isolation.process_settings.environment),
            **(user.environment if user else {}),
            **variables,
            **call.variables,
        }
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
            ours.close()  # a keeper that was started nevertheless ends by that
            for output in (out, err):
                output.close()
            _remove(folder)
            raise

    @property
    def overflow(self) -> asyncio.Future[None]:
        """Done once the program has written more than a result may have."""
        return self._out.overflow

    @property
    def stdout(self) -> bytes:
        """What it wrote there."""
        self._out.drain()
        return self._out.content

    @property
    def oom_killed(self) -> bool:
        """Whether the kernel has killed for want of memory since it was started."""
        return self._count_oom_kills() > self._oom_kills

    def members(self) -> list[int]:
        """The program and all that it has started, without the keeper."""
        found = (self._group.members() if self._group else []) or tree(self._process.pid)
        return [pid for pid in found if pid != self._process.pid]

    async def ended(self) -> ProgramEnd:
        """Wait for its end."""
        failed: str | None = None
        while line := await self._read_line():
            message = json.loads(line)
            if "failed" not in message:
                return ProgramEnd(message["code"], message["cpu"], message["memory"], failed)
            failed = message["failed"]
        return ProgramEnd(None)

    def capture(self) -> FlightRecord:
        """What can be seen of it now."""
        pids = self.members()
        return self._recorder.record(pids, command_lines(pids))

    async def close(self) -> None:
        """Kill what there is of it, and let go of all that it held."""
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
        seconds = ceil(limits.cpu_seconds)
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
