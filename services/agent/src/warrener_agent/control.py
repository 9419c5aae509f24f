"""Control messages: cancellations, breaker states, requests for a heartbeat, and the agent's own pulses."""

from warrener_agent.agent_context import AgentContext
from warrener_agent.decisions.outcomes import StopCause
from warrener_agent.heartbeat import Heartbeater
from warrener_agent.start_gate import StartGate
from warrener_contracts.codec import DecodedEvent
from warrener_contracts.events import (
    AgentHeartbeatRequested,
    AttemptCancel,
    AttemptsChecked,
    BreakerChanged,
    BreakerChangedData,
)
from warrener_contracts.inbox import decode_message
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE
from warrener_runtime.bus.types import Delivery
from warrener_runtime.logs import get_logger

_log = get_logger("agent.control")


class ControlHandler:
    """Carries out control messages."""

    def __init__(self, agent: AgentContext, heartbeater: Heartbeater, start_gate: StartGate) -> None:
        self._agent, self._heartbeater, self._start_gate = agent, heartbeater, start_gate

    async def handle(self, delivery: Delivery) -> None:
        """Handle one message of the control queue."""
        self._heartbeater.note_message()
        if delivery.content_type not in (EVENT_TYPE, BATCH_TYPE):
            return  # a pulse: its arrival is all that counts
        ignored = 0
        found = decode_message(delivery, max_events=self._agent.settings.batch_limit)
        for element in found:
            event = element.event if isinstance(element, DecodedEvent) else None
            if isinstance(event, AttemptCancel):
                await self._cancel(event)
            elif isinstance(event, AgentHeartbeatRequested):
                self._start_gate.note_supervisor()
                await self._heartbeater.send_requested_heartbeat()
            elif isinstance(event, AttemptsChecked):
                await self._start_gate.apply(event.data)
            elif isinstance(event, BreakerChanged):
                self._apply_breaker(event.data)
            else:
                ignored += 1
        if ignored:
            _log.warning(
                "A control message that this agent cannot use was ignored.",
                action="agent.control_ignored",
                routing_key=delivery.routing_key,
                events=ignored,
            )

    def _apply_breaker(self, data: BreakerChangedData) -> None:
        if self._agent.breaker_filter.update(data, self._agent.clock.monotonic()):
            _log.info(
                "A circuit breaker changed its state: attempts are given back while it is open.",
                action="agent.breaker_changed",
                breaker=data.name,
                state=data.state.value,
                reason=data.reason,
            )

    async def _cancel(self, event: AttemptCancel) -> None:
        data = event.data
        if data.attempt is None:  # every attempt: the ledger refuses later claims too
            await self._agent.ledger.cancel([data.job_id], now=self._agent.clock.now())
        for run in self._agent.running:
            if run.data.job_id == data.job_id and data.attempt in (None, run.data.attempt):
                _log.info(
                    "A running attempt was stopped on request.",
                    action="agent.cancelling",
                    job_id=str(data.job_id),
                    attempt=run.data.attempt,
                    reason=data.reason,
                )
                run.request_stop(StopCause.CANCELLED, data.reason)
