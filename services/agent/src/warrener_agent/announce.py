"""announce: what must exist and be known before the first attempt is received."""

from collections.abc import Iterable

from warrener_agent.agent_context import AgentContext
from warrener_agent.job_definitions import JobDefinition
from warrener_agent.outbox import AgentOutbox, OutboxEntry
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
        agent: AgentContext,
        outbox: AgentOutbox,
        definitions: Iterable[JobDefinition],
        schedules: Iterable[ScheduleDeclaration] = (),
    ) -> None:
        super().__init__("announcer")
        self._outbox = outbox
        self._agent, self._definitions, self._schedules = agent, tuple(definitions), tuple(schedules)

    async def _on_start(self) -> None:
        own = (self._agent.own_control_queue, *map(dispatch_queue, self._agent.queues))
        await self._agent.bus.declare(TOPOLOGY.with_queues(own))
        event = AgentAnnounced(
            id=str(self._agent.entropy.new_id()),
            source=f"warrener/agent/{self._agent.agent_id}",
            time=self._agent.clock.now(),
            data=AgentAnnouncedData(
                agent_id=self._agent.agent_id,
                queues=self._agent.queues,
                job_types=tuple(definition.declaration for definition in self._definitions),
                schedules=self._schedules,
            ),
        )
        sent = await self._outbox.send([OutboxEntry([build_message(event)])])
        _log.info(
            "The agent has announced its job types."
            if sent
            else "The agent works, and its job types are announced as soon as the broker takes that.",
            action="agent.announced",
            agent_id=self._agent.agent_id,
            queues=list(self._agent.queues),
            job_types=[definition.name for definition in self._definitions],
            schedules=[declared.schedule.name for declared in self._schedules],
        )
