"""Attempts in child processes: the executor that can stop whatever a handler does."""

import asyncio
import json
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from warrener_agent.context import AttemptFacts, Desk
from warrener_agent.executors.account import AccountError
from warrener_agent.executors.child_process import ChildDied, ChildProcess
from warrener_agent.executors.death import OUT_OF_MEMORY, by_limit, died, is_fault, killed
from warrener_agent.executors.failure import cannot_run
from warrener_agent.executors.frames import Frame
from warrener_agent.executors.pool import Pool
from warrener_agent.executors.port import Ended, Raised
from warrener_agent.executors.restarts import Restarts
from warrener_agent.executors.watch import abandon, first
from warrener_agent.isolation import Limits
from warrener_agent.kinds import JobKind
from warrener_contracts.events import FlightRecord

_WHAT = "the child process to report the end of the handler"


class ProcessExecutor:
    """Runs each handler in a child process, kept warm for the next one."""

    def __init__(self, restarts: Restarts | None = None) -> None:
        self.restarts = restarts or Restarts()
        self.pool = Pool()

    def begin(
        self, kind: JobKind, facts: AttemptFacts, arguments: Mapping[str, Any], desk: Desk
    ) -> "ProcessExecution":
        return ProcessExecution(self, kind, _assignment(kind, facts, arguments), desk)

    async def close(self) -> None:
        await self.pool.close()


class ProcessExecution:
    """One assignment of one child."""

    def __init__(self, executor: ProcessExecutor, kind: JobKind, assignment: Frame, desk: Desk) -> None:
        self._pool, self._restarts = executor.pool, executor.restarts
        self._job_type, self._isolation = kind.name, kind.isolation
        self._child: ChildProcess | None = None
        self.flight_record: FlightRecord | None = None
        self.done = asyncio.create_task(self._run(assignment, desk))

    async def stop(self) -> bool:
        if self._child is not None:
            self.flight_record = await self._child.capture()
        self.done.cancel()
        await asyncio.wait({self.done})
        return True

    async def gone(self) -> None:
        await asyncio.wait({self.done})

    async def _run(self, assignment: Frame, desk: Desk) -> Ended:
        await self._restarts.pause(self._job_type)
        try:
            child = self._child = await self._pool.borrow(self._isolation.surroundings)
        except (AccountError, OSError) as error:
            return cannot_run(self._job_type, str(error))
        try:
            ended = by_limit(await self._until_end(child, assignment, desk), self._isolation.limits)
        except BaseException:
            await child.close()
            self._replace(failed=False)
            raise
        self._child = None
        self._part_with(child, ended)
        return ended

    async def _until_end(self, child: ChildProcess, assignment: Frame, desk: Desk) -> Ended:
        limits = self._isolation.limits
        running = asyncio.create_task(child.run(assignment, limits, desk))
        try:
            breach = await first(running, limits, child.members)
            if breach is not None:
                record = await child.capture()
                await child.kill()
                return killed(breach, record)
            return await running
        except ChildDied as end:
            raised = died(_WHAT, end.death, limits, child.record())
            if is_fault(raised, limits):
                self._restarts.died(self._job_type)
            return raised
        finally:
            await abandon(running)

    def _part_with(self, child: ChildProcess, ended: Ended) -> None:
        if child.alive:
            self._restarts.ended_well(self._job_type)
        if isinstance(ended, Raised) and ended.error.type == OUT_OF_MEMORY:
            self._pool.dismiss(child)  # who knows what it holds
            self._replace(failed=True)
        elif not self._pool.give_back(child, self._isolation.surroundings, self._isolation.recycle):
            self._replace(failed=not child.alive)

    def _replace(self, *, failed: bool) -> None:
        """The child is not kept: another one, where the job type wants that now."""
        if self._isolation.restart == "always" or (failed and self._isolation.restart == "on-failure"):
            self._pool.replace(self._isolation.surroundings, partial(self._restarts.pause, self._job_type))


def _assignment(kind: JobKind, facts: AttemptFacts, arguments: Mapping[str, Any]) -> Frame:
    return {
        "path": sys.path,
        "module": kind.handler.__module__,
        "qualname": kind.handler.__qualname__,
        "arguments": json.dumps(arguments),  # as text: what users say is not ours to read
        "limits": _limits(kind.isolation.limits),
        "checkpoint": json.dumps(facts.last_checkpoint),
        "facts": {
            "job_id": facts.job_id,
            "job_type": facts.job_type,
            "attempt": facts.attempt,
            "max_attempts": facts.max_attempts,
            "deadline": facts.deadline,
        },
    }


def _limits(limits: Limits) -> Frame:
    """What the kernel is to hold a single process to."""
    return {
        "memory": limits.memory_bytes,
        "cpu": limits.cpu_seconds,
        "open_files": limits.open_files,
        "file_size": limits.file_bytes,
    }
