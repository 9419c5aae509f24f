"""presence: the agent says that it lives, as long as it hears."""

import asyncio
import os
import socket
from collections.abc import Callable

from warrener_agent.workplace import Workplace
from warrener_contracts import topology
from warrener_contracts.events import AgentHeartbeat, AgentHeartbeatData, HeartbeatAttempt
from warrener_contracts.messages import Message, build_message
from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.logs import get_logger

_log = get_logger("agent.presence")

PULSE = "application/x-warrener-pulse"
_FIRST = 3
"""Heartbeats' time within which the first one may be missing without a word."""

_FAREWELL = 2.0
"""Seconds in which the last heartbeat must be gone: nobody waits for a broker that is away."""


class Presence:
    """Heartbeats. Before each one the agent sends itself a pulse through the broker: only if that arrives,
    and the queues of work deliver too, the heartbeat goes. A deaf agent falls silent, and its work is given
    to others. `silent`: True if the last heartbeat could not be sent."""

    def __init__(self, at: Workplace, hears_work: Callable[[], bool]) -> None:
        self._at, self._hears_work = at, hears_work
        self._started_at = at.clock.now()
        self._heard = asyncio.Event()
        self._patient_until = 0.0
        # What is younger will most often be over before anybody has read of it.
        self._worth_telling = min(at.settings.agent_announce_after, at.settings.agent_heartbeat)
        self.open = self.draining = self.silent = False

    def begin(self) -> None:
        """All parts have started: heartbeats go from now on. The first may take its time: the broker is still
        busy with what was declared."""
        self._patient_until = self._at.clock.monotonic() + _FIRST * self._at.settings.agent_heartbeat
        self.open, self.draining = True, False

    def heard(self) -> None:
        """Something arrived on the control queue."""
        self._heard.set()

    async def beat(self) -> None:
        """One pulse, and one heartbeat if it came back."""
        if not self.open:
            return
        self._heard.clear()
        await self._at.bus.publish([self._pulse()])
        if not await self._pulse_arrives() or not (self.draining or self._hears_work()):
            self.silent = True
            self._say_deaf()
            return
        self.silent = False
        self._patient_until = 0.0
        await self._at.bus.publish([build_message(self._heartbeat())])

    async def leave(self) -> None:
        """Say that the agent ends: its silence, later, means no harm."""
        self.draining = True
        await self._at.bus.publish([build_message(self._heartbeat())], timeout=_FAREWELL)

    async def answer(self) -> None:
        """A supervisor misses the heartbeats: send one at once. The request has arrived, so no pulse is
        needed."""
        if self.open and (self.draining or self._hears_work()):
            await self._at.bus.publish([build_message(self._heartbeat())], timeout=_FAREWELL)

    def _say_deaf(self) -> None:
        if self._at.clock.monotonic() < self._patient_until:
            return
        _log.warning(
            "The agent hears nothing, so it says nothing: no heartbeat is sent.",
            action="agent.deaf",
            running=len(self._at.running),
        )

    async def _pulse_arrives(self) -> bool:
        hearing = asyncio.create_task(self._heard.wait())
        patience = asyncio.create_task(self._at.clock.sleep(self._at.settings.agent_heartbeat))
        try:
            await asyncio.wait({hearing, patience}, return_when=asyncio.FIRST_COMPLETED)
            return self._heard.is_set()
        finally:
            hearing.cancel()
            patience.cancel()

    def _pulse(self) -> Message:
        return Message(
            exchange=topology.CONTROL,
            routing_key=f"agent.{self._at.agent_id}",
            body=b"",
            content_type=PULSE,
            message_id=str(self._at.entropy.new_id()),
            type="pulse",
            headers={},
            persistent=False,
        )

    def _heartbeat(self) -> AgentHeartbeat:
        since = self._at.clock.monotonic() - self._worth_telling
        running = tuple(
            HeartbeatAttempt(job_id=run.data.job_id, attempt=run.data.attempt)
            for run in self._at.running
            if run.announced or run.began <= since
        )
        return AgentHeartbeat(
            id=str(self._at.entropy.new_id()),
            source=f"warrener/agent/{self._at.agent_id}",
            time=self._at.clock.now(),
            data=AgentHeartbeatData(
                agent_id=self._at.agent_id,
                host=socket.gethostname(),
                pid=os.getpid(),
                queues=self._at.queues,
                slots=self._at.running.slots,
                running=running,
                started_at=self._started_at,
                draining=self.draining,
            ),
        )


class Door(ManagedComponent):
    """Opens when all parts have started, and says when the agent begins to drain: it stands last, so it
    drains first. Heartbeats begin with it, and go on until the end."""

    def __init__(self, presence: Presence) -> None:
        super().__init__("door")
        self._presence = presence

    async def _on_start(self) -> None:
        self._presence.begin()

    async def _on_drain(self) -> None:
        self._presence.draining = True


class Farewell(ManagedComponent):
    """Says at the end of a drain that the agent ends: it stands first, so it drains last."""

    def __init__(self, presence: Presence) -> None:
        super().__init__("farewell")
        self._presence = presence

    async def _on_drain(self) -> None:
        await self._presence.leave()
