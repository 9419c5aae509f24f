"""Attempts in child processes: the executor that can stop whatever a handler does."""

import asyncio
import json
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from warrener_agent.context import AttemptFacts, HandlerPort
from warrener_agent.executors.child_pool import ChildPool
from warrener_agent.executors.child_process import ChildDied, ChildProcess
from warrener_agent.executors.error_info import start_failure
from warrener_agent.executors.exit_info import (
    OUT_OF_MEMORY,
    describe_crash,
    describe_limit_kill,
    is_fault,
    relabel_memory_error,
)
from warrener_agent.executors.frames import Frame
from warrener_agent.executors.limit_watch import cancel_and_wait, wait_first
from warrener_agent.executors.port import HandlerRaised, HandlerResult
from warrener_agent.executors.restarts import Restarts
from warrener_agent.executors.system_user import UserUnavailable
from warrener_agent.isolation import Limits
from warrener_agent.job_definitions import JobDefinition
from warrener_contracts.events import FlightRecord

_WHAT = "the child process to report the end of the handler"


class ProcessExecutor:
    """Runs each handler in a child process, kept warm for the next one."""

    def __init__(self, restarts: Restarts | None = None) -> None:
        self.restarts = restarts or Restarts()
        self.pool = ChildPool()

    def begin(
        self,
        definition: JobDefinition,
        facts: AttemptFacts,
        arguments: Mapping[str, Any],
        handler_port: HandlerPort,
    ) -> "ProcessExecution":
        return ProcessExecution(self, definition, _assignment(definition, facts, arguments), handler_port)

    async def close(self) -> None:
        await self.pool.close()


class ProcessExecution:
    """One assignment of one child."""

    def __init__(
        self,
        executor: ProcessExecutor,
        definition: JobDefinition,
        assignment: Frame,
        handler_port: HandlerPort,
    ) -> None:
        self._pool, self._restarts = executor.pool, executor.restarts
        self._job_type, self._isolation = definition.name, definition.isolation
        self._child: ChildProcess | None = None
        self.flight_record: FlightRecord | None = None
        self.done = asyncio.create_task(self._run(assignment, handler_port))

    async def stop(self) -> bool:
        if self._child is not None:
            self.flight_record = await self._child.capture()
        self.done.cancel()
        await asyncio.wait({self.done})
        return True

    async def wait_finished(self) -> None:
        await asyncio.wait({self.done})

    async def _run(self, assignment: Frame, handler_port: HandlerPort) -> HandlerResult:
        await self._restarts.pause(self._job_type)
        try:
            child = self._child = await self._pool.borrow(self._isolation.process_settings)
        except (UserUnavailable, OSError) as error:
            return start_failure(self._job_type, str(error))
        try:
            ended = relabel_memory_error(
                await self._until_end(child, assignment, handler_port), self._isolation.limits
            )
        except BaseException:
            await child.close()
            self._replace(failed=False)
            raise
        self._child = None
        self._return_child(child, ended)
        return ended

    async def _until_end(
        self, child: ChildProcess, assignment: Frame, handler_port: HandlerPort
    ) -> HandlerResult:
        limits = self._isolation.limits
        running = asyncio.create_task(child.run(assignment, limits, handler_port))
        try:
            exceeded = await wait_first(running, limits, child.members)
            if exceeded is not None:
                record = await child.capture()
                await child.kill()
                return describe_limit_kill(exceeded, record)
            return await running
        except ChildDied as end:
            raised = describe_crash(_WHAT, end.exit_info, limits, child.record())
            if is_fault(raised, limits):
                self._restarts.record_crash(self._job_type)
            return raised
        finally:
            await cancel_and_wait(running)

    def _return_child(self, child: ChildProcess, ended: HandlerResult) -> None:
        if child.alive:
            self._restarts.record_clean_exit(self._job_type)
        if isinstance(ended, HandlerRaised) and ended.error.type == OUT_OF_MEMORY:
            self._pool.dismiss(child)  # who knows what it holds
            self._replace(failed=True)
        elif not self._pool.give_back(child, self._isolation.process_settings, self._isolation.recycle):
            self._replace(failed=not child.alive)

    def _replace(self, *, failed: bool) -> None:
        """The child is not kept: another one, where the job type wants that now."""
        if self._isolation.restart == "always" or (failed and self._isolation.restart == "on-failure"):
            self._pool.replace(
                self._isolation.process_settings, partial(self._restarts.pause, self._job_type)
            )


def _assignment(definition: JobDefinition, facts: AttemptFacts, arguments: Mapping[str, Any]) -> Frame:
    return {
        "path": sys.path,
        "module": definition.handler.__module__,
        "qualname": definition.handler.__qualname__,
        "arguments": json.dumps(arguments),  # as text: what users say is not ours to read
        "limits": _limits(definition.isolation.limits),
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
