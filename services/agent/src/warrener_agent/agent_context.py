"""The dependencies that all parts of one agent share."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property

from warrener_agent.decisions.intake import BreakerFilter
from warrener_agent.executors.isolated import Restarts
from warrener_agent.ledger.port import Ledger
from warrener_agent.metrics import AgentMetrics
from warrener_agent.run_table import RunTable
from warrener_agent.settings import AgentSettings
from warrener_agent.status_events import EventFactory
from warrener_contracts.private_payloads import PayloadCodec
from warrener_contracts.topology import Queue, control_queue
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock, Entropy
from warrener_runtime.telemetry.metrics import Metrics


@dataclass(frozen=True, kw_only=True)
class AgentContext:
    """One agent's identity, its ports, and the table of what it runs."""

    agent_id: str
    holder_id: str
    """The name of this process in the ledger: an agent that takes up the same identity has another one."""
    queues: tuple[str, ...]
    bus: Bus
    ledger: Ledger
    clock: Clock
    entropy: Entropy
    settings: AgentSettings
    running: RunTable
    event_factory: EventFactory
    breaker_filter: BreakerFilter
    code_version: str | None = None  # of the handlers
    codec: PayloadCodec | None = None  # of encrypted payloads
    restarts: Restarts = field(default_factory=Restarts)
    metrics: AgentMetrics = field(default_factory=lambda: AgentMetrics(Metrics.disabled()))

    @cached_property
    def own_control_queue(self) -> Queue:
        """The agent's own control queue. Its name is new at each start: the broker may not have noticed yet
        that the previous one is gone."""
        queue = control_queue(self.agent_id, self.queues)
        return replace(queue, name=f"{queue.name}.{self.entropy.new_id().hex[-8:]}")

    @property
    def lease(self) -> timedelta:
        """How long a claim holds without being renewed."""
        return timedelta(seconds=self.settings.agent_claim_ttl)
