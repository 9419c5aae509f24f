"""What all parts of one agent share."""

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property

from warrener_agent.ledger.port import Ledger
from warrener_agent.running import Running
from warrener_agent.settings import AgentSettings
from warrener_agent.status_events import Speaker
from warrener_contracts.topology import Queue, control_queue
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock, Entropy


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """One agent's identity, its seams, and the table of what it runs."""

    agent_id: str
    queues: tuple[str, ...]
    bus: Bus
    ledger: Ledger
    clock: Clock
    entropy: Entropy
    settings: AgentSettings
    running: Running
    speaker: Speaker

    @cached_property
    def ear(self) -> Queue:
        """Its own queue for control. Its name is new at each start: the broker may not have noticed yet that
        the one before is gone."""
        queue = control_queue(self.agent_id, self.queues)
        return replace(queue, name=f"{queue.name}.{self.entropy.new_id().hex[-8:]}")

    @property
    def lease(self) -> timedelta:
        """How long a claim holds without being renewed."""
        return timedelta(seconds=self.settings.agent_lease)
