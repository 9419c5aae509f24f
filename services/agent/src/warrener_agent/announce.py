"""announce: what must exist and be known before the first attempt is received."""

from collections.abc import Iterable

from warrener_agent.kinds import JobKind
from warrener_agent.outbox import AgentOutbox, Shipment
from warrener_agent.workplace import Workplace
from warrener_contracts.events import AgentAnnounced, AgentAnnouncedData, ScheduleDeclaration
from warrener_contracts.messages import build_message
from warrener_contracts.topology import TOPOLOGY, dispatch_queue
from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.logs import get_logger

_log = get_logger("agent.announce")


class Announcer(ManagedComponent):
    """Declares the queues when it starts, then tells the scheduler what this agent can run."""

    def __init__(
        self,
        at: Workplace,
        outbox: AgentOutbox,
        kinds: Iterable[JobKind],
        schedules: Iterable[ScheduleDeclaration] = (),
    ) -> None:
        super().__init__("announcer")
        self._outbox = outbox
        self._at, self._kinds, self._schedules = at, tuple(kinds), tuple(schedules)

    async def _on_start(self) -> None:
        own = (self._at.ear, *map(dispatch_queue, self._at.queues))
        await self._at.bus.declare(TOPOLOGY.with_queues(own))
        event = AgentAnnounced(
            id=str(self._at.entropy.new_id()),
            source=f"warrener/agent/{self._at.agent_id}",
            time=self._at.clock.now(),
            data=AgentAnnouncedData(
                agent_id=self._at.agent_id,
                queues=self._at.queues,
                job_types=tuple(kind.declaration for kind in self._kinds),
                schedules=self._schedules,
            ),
        )
        sent = await self._outbox.send([Shipment([build_message(event)])])
        _log.info(
            "The agent has announced its job types."
            if sent
            else "The agent works, and its job types are announced as soon as the broker takes that.",
            action="agent.announced",
            agent_id=self._at.agent_id,
            queues=list(self._at.queues),
            job_types=[kind.name for kind in self._kinds],
            schedules=[told.schedule.name for told in self._schedules],
        )
