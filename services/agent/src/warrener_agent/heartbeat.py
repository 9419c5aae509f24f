"""presence: the agent says that it lives, as long as it hears."""

import asyncio
import os
import socket
from collections.abc import Callable

from warrener_agent.agent_context import AgentContext
from warrener_contracts import topology
from warrener_contracts.events import AgentHeartbeat, AgentHeartbeatData, HeartbeatAttempt
from warrener_contracts.messages import Message, build_message
from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.logs import get_logger

_log = get_logger("agent.presence")

PULSE = "application/x-warrener-pulse"
_FIRST_GRACE = 3
"""Heartbeats' time within which the first one may be missing without a word."""

_GOODBYE_TIMEOUT = 2.0
"""Seconds in which the last heartbeat must be gone: nobody waits for a broker that is away."""


class Heartbeater:
    """Heartbeats. Before each one the agent sends itself a pulse through the broker: only if that arrives,
    and the queues of work deliver too, the heartbeat goes. A deaf agent falls silent, and its work is given
    to others. `silent`: True if the last heartbeat could not be sent."""

    def __init__(self, agent: AgentContext, is_receiving_work: Callable[[], bool]) -> None:
        self._agent, self._is_receiving_work = agent, is_receiving_work
        self._started_at = agent.clock.now()
        self._message_received = asyncio.Event()
        self._grace_until = 0.0
        # What is younger will most often be over before anybody has read of it.
        self._min_reported_age = min(agent.settings.agent_announce_after, agent.settings.agent_heartbeat)
        self.open = self.draining = self.silent = False

    def begin(self) -> None:
        """All parts have started: heartbeats go from now on. The first may take its time: the broker is still
        busy with what was declared."""
        self._grace_until = (
            self._agent.clock.monotonic() + _FIRST_GRACE * self._agent.settings.agent_heartbeat
        )
        self.open, self.draining = True, False

    def note_message(self) -> None:
        """Something arrived on the control queue."""
        self._message_received.set()

    async def send_heartbeat(self) -> None:
        """One pulse, and one heartbeat if it came back."""
        if not self.open:
            return
        self._message_received.clear()
        await self._agent.bus.publish([self._pulse()])
        if not await self._wait_for_pulse() or not (self.draining or self._is_receiving_work()):
            self.silent = True
            self._log_stalled()
            return
        self.silent = False
        self._grace_until = 0.0
        await self._agent.bus.publish([build_message(self._heartbeat())])

    async def send_goodbye(self) -> None:
        """Say that the agent ends: its silence, later, means no harm."""
        self.draining = True
        await self._agent.bus.publish([build_message(self._heartbeat())], timeout=_GOODBYE_TIMEOUT)

    async def send_requested_heartbeat(self) -> None:
        """A supervisor misses the heartbeats: send one at once. The request has arrived, so no pulse is
        needed."""
        if self.open and (self.draining or self._is_receiving_work()):
            await self._agent.bus.publish([build_message(self._heartbeat())], timeout=_GOODBYE_TIMEOUT)

    def _log_stalled(self) -> None:
        if self._agent.clock.monotonic() < self._grace_until:
            return
        _log.warning(
            "The agent hears nothing, so it says nothing: no heartbeat is sent.",
            action="agent.deaf",
            running=len(self._agent.running),
        )

    async def _wait_for_pulse(self) -> bool:
        arrival = asyncio.create_task(self._message_received.wait())
        patience = asyncio.create_task(self._agent.clock.sleep(self._agent.settings.agent_heartbeat))
        try:
            await asyncio.wait({arrival, patience}, return_when=asyncio.FIRST_COMPLETED)
            return self._message_received.is_set()
        finally:
            arrival.cancel()
            patience.cancel()

    def _pulse(self) -> Message:
        return Message(
            exchange=topology.CONTROL,
            routing_key=f"agent.{self._agent.agent_id}",
            body=b"",
            content_type=PULSE,
            message_id=str(self._agent.entropy.new_id()),
            type="pulse",
            headers={},
            persistent=False,
        )

    def _heartbeat(self) -> AgentHeartbeat:
        since = self._agent.clock.monotonic() - self._min_reported_age
        running = tuple(
            HeartbeatAttempt(job_id=run.data.job_id, attempt=run.data.attempt)
            for run in self._agent.running
            if run.announced or run.began_at <= since
        )
        return AgentHeartbeat(
            id=str(self._agent.entropy.new_id()),
            source=f"warrener/agent/{self._agent.agent_id}",
            time=self._agent.clock.now(),
            data=AgentHeartbeatData(
                agent_id=self._agent.agent_id,
                host=socket.gethostname(),
                pid=os.getpid(),
                queues=self._agent.queues,
                slots=self._agent.running.slots,
                running=running,
                started_at=self._started_at,
                draining=self.draining,
            ),
        )


class ReadyGate(ManagedComponent):
    """Opens when all parts have started, and says when the agent begins to drain: it stands last, so it
    drains first. Heartbeats begin with it, and go on until the end."""

    def __init__(self, heartbeater: Heartbeater) -> None:
        super().__init__("ready gate")
        self._heartbeater = heartbeater

    async def _on_start(self) -> None:
        self._heartbeater.begin()

    async def _on_drain(self) -> None:
        self._heartbeater.draining = True


class GoodbyeMessage(ManagedComponent):
    """Says at the end of a drain that the agent ends: it stands first, so it drains last."""

    def __init__(self, heartbeater: Heartbeater) -> None:
        super().__init__("goodbye")
        self._heartbeater = heartbeater

    async def _on_drain(self) -> None:
        await self._heartbeater.send_goodbye()
