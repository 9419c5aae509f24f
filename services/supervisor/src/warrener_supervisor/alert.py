"""alert: looks whether the other services hear, and says so where they do not."""

from warrener_contracts.letters import letter_for
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_store.port import StateStore
from warrener_supervisor import act
from warrener_supervisor.alarms import Alarms, ears
from warrener_supervisor.hearing import Hearing
from warrener_supervisor.rules import Rules

_log = get_logger("alert")


class Alert:
    """The verb that raises alarms: a line in the log and an event for whoever passes them on. Each supervisor
    says what it notices; one that is started anew says it again."""

    def __init__(self, bus: Bus, store: StateStore, clock: Clock, rules: Rules, hearing: Hearing) -> None:
        self._bus, self._store, self._clock = bus, store, clock
        self._hearing = hearing
        self._alarms = Alarms(rules)

    async def look(self) -> None:
        """One look at all of them."""
        agents = await self._store.agents()
        types = await self._store.job_types()
        queues = {row.queue for row in types.values()}
        backlogs = {ear: await self._bus.backlog(ear.queue) for ear in ears(agents, queues)}
        now = self._clock.now()
        lost = self._alarms.lost(agents, now) if self._hearing.proves(now) else []
        deaf = self._alarms.deaf(backlogs, now)
        for silent in lost:
            _log.error(
                "An agent has fallen silent; its attempts are given to others.",
                action="alert.agent_lost",
                agent_id=silent.data.agent_id,
                host=silent.data.host,
                last_seen_at=silent.data.last_seen_at.isoformat(),
            )
        for unheard in deaf:
            _log.error(
                "Messages wait in a queue that nobody consumes. Look at the service that should.",
                action="alert.service_deaf",
                service=unheard.data.service,
                queue=unheard.data.queue,
                waiting=unheard.data.waiting,
            )
        await act.publish(self._bus, [letter_for(event) for event in (*lost, *deaf)], self._clock)
