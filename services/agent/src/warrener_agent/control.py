"""control: what the agent is told beside its work."""

from warrener_agent.presence import Presence
from warrener_agent.running import Stop
from warrener_agent.workplace import Workplace
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import (
    AgentHeartbeatRequested,
    AttemptCancel,
    BreakerChanged,
    BreakerChangedData,
)
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE
from warrener_runtime.bus.port import Delivery
from warrener_runtime.logs import get_logger

_log = get_logger("agent.control")


class Control:
    """Receives pulses, cancellations, breakers and requests for a heartbeat."""

    def __init__(self, at: Workplace, presence: Presence) -> None:
        self._at, self._presence = at, presence

    async def hear(self, delivery: Delivery) -> None:
        """One message of the control queue."""
        self._presence.heard()
        if delivery.content_type not in (EVENT_TYPE, BATCH_TYPE):
            return  # a pulse: that it came is all it says
        ignored = 0
        found = decode(delivery.body, delivery.content_type, max_events=self._at.settings.batch_limit)
        for element in found:
            event = element.event if isinstance(element, DecodedEvent) else None
            if isinstance(event, AttemptCancel):
                await self._cancel(event)
            elif isinstance(event, AgentHeartbeatRequested):
                await self._presence.answer()
            elif isinstance(event, BreakerChanged):
                self._turn(event.data)
            else:
                ignored += 1
        if ignored:
            _log.warning(
                "A control message means nothing to this agent and is ignored.",
                action="agent.control_ignored",
                routing_key=delivery.routing_key,
                events=ignored,
            )

    def _turn(self, data: BreakerChangedData) -> None:
        if self._at.gate.hear(data, self._at.clock.monotonic()):
            _log.info(
                "A circuit breaker has turned: attempts are given back while it is open.",
                action="agent.breaker",
                breaker=data.name,
                state=data.state.value,
                reason=data.reason,
            )

    async def _cancel(self, event: AttemptCancel) -> None:
        data = event.data
        if data.attempt is None:  # every attempt: whoever claims one later is told so
            await self._at.ledger.cancel([data.job_id], now=self._at.clock.now())
        for run in self._at.running:
            if run.data.job_id == data.job_id and data.attempt in (None, run.data.attempt):
                _log.info(
                    "A running attempt is stopped because somebody asked.",
                    action="agent.cancelling",
                    job_id=str(data.job_id),
                    attempt=run.data.attempt,
                    reason=data.reason,
                )
                run.ask_to_stop(Stop.CANCELLED, data.reason)
