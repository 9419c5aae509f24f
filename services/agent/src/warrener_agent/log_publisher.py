"""Publish the log lines of attempts, in the background and within limits.

Reports come first: lines are published at most once an interval, one publish at a time, on an exchange of
their own, and nothing waits for them. Lines that the broker does not take stay in their buffers, where later
ones replace them. An attempt that logs nothing costs an empty buffer.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from warrener_agent import log_buffer
from warrener_agent.agent_context import AgentContext
from warrener_agent.run_table import Run
from warrener_contracts.events import AttemptLogged
from warrener_contracts.messages import batch_messages, build_message
from warrener_runtime.bus.types import PublishResult
from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.log_scopes import capture_lock
from warrener_runtime.logs import get_logger

_log = get_logger("agent.logs")

_MAX_TOTAL = 16 * 1024 * 1024  # bytes of all unpublished lines of an agent
_MAX_EVENT = 24 * 1024  # bytes of the lines of one event: the store drops old lines by events
_LINE_OVERHEAD = 100  # bytes of a line in an event besides its text, about
_SECONDS_OF_A_BUFFER = 4.0
"""Seconds in which an attempt that never stops logging may publish as much as its buffer holds."""
_PUBLISH_TIMEOUT = 5.0
_KEEP_ENDED = 30.0
"""Seconds for which the lines of an ended attempt are published again if the broker does not take them."""
_DRAIN_TIMEOUT, _DRAIN_STEP = 2.0, 0.5


@dataclass(eq=False, slots=True)
class AttemptLog:
    """The log of one run of an attempt, from its first line on. Its times are monotonic."""

    run: Run
    due_at: float = 0.0
    ended_at: float = inf
    last_published: log_buffer.NumberedLine | None = None


class _Part(NamedTuple):
    """Lines of one log that are published now."""

    log: AttemptLog
    buffer: log_buffer.LogBuffer
    lines: Sequence[log_buffer.NumberedLine]
    final: bool


class LogPublisher(ManagedComponent):
    """Publishes what running and ended attempts have logged."""

    def __init__(self, agent: AgentContext) -> None:
        super().__init__("log publisher")
        settings = agent.settings
        self._agent = agent
        self._limits = log_buffer.LogLimits(
            settings.agent_log_size_limit,
            settings.agent_log_lines_limit,
            min(settings.agent_log_line_size_limit, settings.agent_log_size_limit),
        )
        self._interval = settings.agent_log_interval
        self._rate = float(settings.agent_log_rate_limit)
        self._shared = log_buffer.SharedSize(_MAX_TOTAL)
        self._logs: dict[log_buffer.LogBuffer, AttemptLog] = {}
        self._allowance, self._refilled_at = self._rate * self._interval, 0.0
        self._is_publishing = False
        self._work: asyncio.Task[None] | None = None

    def open(self, run: Run, secrets: tuple[str, ...] = ()) -> log_buffer.LogBuffer:
        """Return the buffer of a run; `finish` takes it back."""
        if not self._limits.size:
            return replace(log_buffer.NO_LOG, _secrets=secrets) if secrets else log_buffer.NO_LOG

        def register(buffer: log_buffer.LogBuffer) -> None:
            with capture_lock():  # the first line may come in any thread
                self._logs[buffer] = AttemptLog(run)

        return log_buffer.LogBuffer(self._limits, self._shared, register, secrets)

    def finish(self, buffer: log_buffer.LogBuffer, *, urgent: bool) -> None:
        """Note that a run has ended: its last lines are published soon, or at once if they are urgent."""
        log = self._logs.get(buffer)
        if log is None:  # it has logged nothing
            buffer.close()
            return
        log.ended_at = self._agent.clock.monotonic()
        if urgent and self._work is None:
            self._work = asyncio.create_task(self._publish_urgent(), name="last log lines")

    async def publish_due(self) -> None:
        if self._logs and not self._is_publishing:
            await self._publish()

    async def _publish_urgent(self) -> None:
        try:
            if not self._is_publishing:
                await self._publish(only_ended=True)
        finally:
            self._work = None

    async def _publish(self, *, only_ended: bool = False, limited: bool = True) -> bool:
        """Publish once; True if the broker took all of it."""
        self._is_publishing = True
        try:
            return await self._publish_parts(list(self._next_parts(only_ended=only_ended, limited=limited)))
        finally:
            self._is_publishing = False

    def _next_parts(self, *, only_ended: bool, limited: bool) -> Iterator[_Part]:
        now = self._agent.clock.monotonic()
        if limited:
            refill = (now - self._refilled_at) * self._rate
            self._allowance = min(self._allowance + refill, self._rate * self._interval)
            self._refilled_at = now
        with capture_lock():
            logs = sorted(self._logs.items(), key=lambda item: min(item[1].ended_at, item[1].due_at))
        for buffer, log in logs:
            is_ended = log.ended_at < inf
            if now - log.ended_at > _KEEP_ENDED:
                _log.warning(
                    "Log lines of an ended attempt were dropped: the broker did not take them.",
                    action="agent.logs_dropped",
                    job_id=str(log.run.data.job_id),
                    attempt=log.run.data.attempt,
                )
                self._forget(buffer)
                continue
            if limited and not is_ended and (only_ended or log.due_at > now):
                continue
            if limited and self._allowance <= 0:
                return
            buffer.take_output(whole=is_ended)
            lines = buffer.first_lines(int(max(self._allowance, 1)) if limited else self._limits.size)
            if is_ended and not lines and log.last_published is not None:
                lines = [log.last_published]  # published while it ran: repeated, to say that none follows
            size = sum(one.size for one in lines)
            self._allowance -= size + _LINE_OVERHEAD * len(lines)
            share = max(size / self._limits.size, len(lines) / self._limits.lines)
            log.due_at = now + max(self._interval, share * _SECONDS_OF_A_BUFFER) - self._interval / 10
            if lines:
                yield _Part(log, buffer, lines, is_ended and lines[-1].number >= buffer.last_number)
            elif is_ended:
                self._forget(buffer)

    async def _publish_parts(self, parts: Sequence[_Part]) -> bool:
        if not parts:
            return True
        messages = batch_messages(build_message(event) for part in parts for event in self._events(part))
        results = await self._agent.bus.publish(messages, timeout=_PUBLISH_TIMEOUT)
        if results.count(PublishResult.CONFIRMED) < len(results):
            # Published again, with new lines: the store recognises lines by their numbers.
            _log.debug("Log lines were not published.", action="agent.logs_refused", messages=len(results))
            return False
        for part in parts:
            part.log.last_published = part.lines[-1]
            part.buffer.discard_through(part.lines[-1].number)
            if part.final:  # a task that the attempt has left behind may go on logging
                self._forget(part.buffer)
        return True

    def _events(self, part: _Part) -> Iterator[AttemptLogged]:
        groups = log_buffer.group_by_size(part.lines, _MAX_EVENT)
        for number, group in enumerate(groups, 1):
            final = part.final and number == len(groups)
            yield self._agent.event_factory.logged(part.log.run, group, final=final)

    def _forget(self, buffer: log_buffer.LogBuffer) -> None:
        buffer.close()
        with capture_lock():
            self._logs.pop(buffer, None)

    async def _on_drain(self) -> None:
        patience = asyncio.create_task(self._agent.clock.sleep(_DRAIN_TIMEOUT), name="drain logs")
        publishing = asyncio.create_task(self._publish_rest(), name="publish the last logs")
        await asyncio.wait({patience, publishing}, return_when=asyncio.FIRST_COMPLETED)
        for task in (patience, publishing):
            task.cancel()

    async def _publish_rest(self) -> None:
        for _ in range(2):  # after a publish that is under way, which may hold back one of ours
            if self._is_publishing:
                await self._agent.clock.sleep(_DRAIN_STEP)
            elif self._logs:
                await self._publish(limited=False)

    async def _on_stop(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait({self._work}, timeout=1)
        self._logs.clear()
