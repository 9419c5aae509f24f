"""Store the log lines of attempts, at a pace that leaves store and event loop to the status events."""

from collections.abc import Iterable, Sequence
from typing import Final

from warrener_contracts.events import AttemptLogged
from warrener_contracts.inbox import Inbox, ParkedEvent
from warrener_contracts.messages import Message, batch_parked
from warrener_contracts.topology import LOGS_QUEUE, MAX_EVENTS
from warrener_runtime.bus.port import Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.logs import get_logger
from warrener_store.errors import StoreRefused
from warrener_store.logs.rows import LogChunk, LogLimit
from warrener_supervisor.effects import SupervisorPorts

_log = get_logger("logs")

_REST: Final = 4.0
"""Pause after a batch, as a multiple of the time that the batch took: log lines get a fifth of the time."""
_MAX_PAUSE = 1.0
_MAX_CHUNKS = 200  # in one statement


class LogConsumer:
    """Consumes the queue of log lines. A full queue drops its oldest messages, so nothing waits for this."""

    def __init__(self, ports: SupervisorPorts, limit: LogLimit, *, max_events: int = MAX_EVENTS) -> None:
        self._ports, self._limit = ports, limit
        _, self._store, self._clock, _ = ports
        self._inbox = Inbox(LOGS_QUEUE.name, {AttemptLogged}, max_events=max_events)

    async def handle(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Store one batch. Raises only if broker or store fail, and then nothing is acknowledged."""
        began = self._clock.monotonic()
        chunks, parked = await self._read(deliveries)
        for first in range(0, len(chunks), _MAX_CHUNKS):
            await self._append(chunks[first : first + _MAX_CHUNKS])
        await self._ports.publish(batch_parked(parked))
        await subscription.ack(deliveries)
        await self._clock.sleep(min((self._clock.monotonic() - began) * _REST, _MAX_PAUSE))

    async def _append(self, chunks: Sequence[LogChunk]) -> None:
        """Store chunks; one that the store refuses is dropped, as when its job is deleted meanwhile."""
        try:
            await self._store.append_logs(chunks, self._limit)
        except StoreRefused as error:
            if len(chunks) > 1:
                for chunk in chunks:
                    await self._append([chunk])
                return
            _log.warning(
                "The store refused log lines, which were dropped.",
                action="logs.refused",
                job_id=str(chunks[0].job_id),
                attempt=chunks[0].attempt,
                error=str(error),
            )

    async def _read(self, deliveries: Iterable[Delivery]) -> tuple[list[LogChunk], list[Message]]:
        """Return the chunks of a batch, and the messages to park."""
        chunks: list[LogChunk] = []
        parked: list[Message] = []
        for _, events in await self._inbox.read(deliveries):
            for found in events:
                if isinstance(found, ParkedEvent):
                    parked.append(found.message)
                elif isinstance(found.event, AttemptLogged):
                    chunks.append(to_chunk(found.event))
        if parked:
            _log.error(
                "Messages other than log lines were parked.", action="logs.parked", messages=len(parked)
            )
        return chunks, parked


def to_chunk(event: AttemptLogged) -> LogChunk:
    """Convert an event to the row that stores it."""
    data = event.data
    numbers = [line.number for line in data.lines]
    return LogChunk(
        job_id=data.job_id,
        attempt=data.attempt,
        started_at=data.started_at,
        first_line=min(numbers),
        last_line=max(numbers),
        line_count=len(numbers),
        agent_id=data.agent_id,
        final=data.final,
        size=sum(len(line.text.encode()) for line in data.lines),
        lines=data.lines,
    )
