"""Announce the agent and its job types, send heartbeats for as long as it receives messages, and carry out
control messages."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterable

from warrener_agent.agent_context import AgentContext
from warrener_agent.decisions.outcomes import StopCause
from warrener_agent.definitions.job import JobDefinition
from warrener_agent.outbox import AgentOutbox, OutboxEntry
from warrener_agent.start_gate import StartGate
from warrener_contracts import events, topology
from warrener_contracts.codec import DecodedEvent
from warrener_contracts.inbox import decode_message
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE, Message, build_message
from warrener_contracts.topology import EXCHANGES, TOPOLOGY, Topology, dispatch_queue
from warrener_runtime.bus.types import Delivery, PublishResult
from warrener_runtime.clock import wait_at_most
from warrener_runtime.health import find_refusal, forget_refusal
from warrener_runtime.lifecycle import ManagedComponent, NotReady
from warrener_runtime.lifecycle.declaring import declare_when_permitted
from warrener_runtime.logs import get_logger

_log, _control_log = get_logger("agent.presence"), get_logger("agent.control")

PULSE = "application/x-warrener-pulse"
_FIRST_GRACE = 3  # heartbeat intervals within which the first heartbeat may be missing without a log line
_MAX_TYPES_LISTED = 500  # job types that a heartbeat lists; an agent with more of them lists none
_BESIDES = f"exchange {topology.LOGS}"  # log lines are no work
_UNPROVED_AFTER = 1.5
"""Heartbeat intervals without a proof after which the agent takes no attempts, before its lease ends."""
_REFUSED_PAUSE = 5
"""Heartbeat intervals until a refused exchange is tried again, as a refusal closes the channel."""
_DECLARE_INTERVAL = 20.0
"""Seconds until the control queue is bound again: nothing but its commands would miss a binding."""
_EXCHANGES = tuple(one for one in EXCHANGES if one.name in {topology.CONTROL, topology.HEARTBEATS})
_GOODBYE_TIMEOUT = 2.0
"""Seconds in which the last heartbeat must be sent: nothing waits for a broker that is away."""


class Announcer(ManagedComponent):
    """Declares the queues when it starts, then announces to the scheduler what this agent can run.

    In one message, which schedulers of each release read. An agent whose user may not announce all queues
    sends one for each of its own, under a key that a topic permission can name.
    """

    def __init__(
        self,
        agent: AgentContext,
        outbox: AgentOutbox,
        definitions: Iterable[JobDefinition],
        schedules: Iterable[events.ScheduleDeclaration] = (),
    ) -> None:
        super().__init__("announcer")
        self._outbox = outbox
        self._agent, self._definitions, self._schedules = agent, tuple(definitions), tuple(schedules)

    async def _on_start(self) -> None:
        own = (self._agent.own_control_queue, *map(dispatch_queue, self._agent.queues))
        needed = TOPOLOGY.with_queues(own)
        await declare_when_permitted("topology", lambda: self._agent.bus.declare(needed), self._agent.clock)
        declared = tuple(definition.declaration for definition in self._definitions)
        data = events.AgentAnnouncedData(
            agent_id=self._agent.agent_id,
            queues=self._agent.queues,
            job_types=declared,
            schedules=self._schedules,
            code_version=self._agent.code_version,
            started_at=self._agent.clock.now(),
        )
        messages = [self._message(data)]
        [result] = await self._agent.bus.publish(messages)
        if result is PublishResult.REFUSED and forget_refusal(f"exchange {topology.REQUESTS}"):
            messages = [self._message(part) for part in _split_by_queue(data)]
        sent = result is PublishResult.CONFIRMED or await self._outbox.send([OutboxEntry(messages)])
        _log.info(
            "The agent announced its job types."
            if sent
            else "The agent works; its job types are announced as soon as the broker accepts that.",
            action="agent.announced",
            agent_id=self._agent.agent_id,
            code_version=self._agent.code_version,
            queues=list(self._agent.queues),
            job_types=[definition.name for definition in self._definitions],
            schedules=[declared.schedule.name for declared in self._schedules],
        )

    def _message(self, data: events.AgentAnnouncedData) -> Message:
        event = events.AgentAnnounced(
            id=str(self._agent.entropy.new_id()),
            source=f"warrener/agent/{data.agent_id}",
            time=self._agent.clock.now(),
            data=data,
        )
        return build_message(event)._replace(routing_key=event.routes[data.queue is not None].key_for(data))


def _split_by_queue(data: events.AgentAnnouncedData) -> list[events.AgentAnnouncedData]:
    """Split an announcement by the queues of its agent; the first has the schedules of others' job types."""
    own = {declared.name for declared in data.job_types}
    parts: list[events.AgentAnnouncedData] = []
    for queue in data.queues:
        types = tuple(one for one in data.job_types if queue in {one.queue, *one.policy.rule_queues})
        names = {one.name for one in types}
        schedules = tuple(
            one
            for one in data.schedules
            if one.schedule.job_type in names or (one.schedule.job_type not in own and not parts)
        )
        part = {"queue": queue, "queues": (queue,), "job_types": types, "schedules": schedules}
        parts.append(data.model_copy(update=part))
    return parts


class PresenceUnproved(Exception):
    """Supervisors may not know that this agent lives, so it takes no attempts."""

    outage = True


class Heartbeater(ManagedComponent):
    """Sends heartbeats. It stands first, so it drains last, and announces then that the agent ends.

    Before each one the agent sends itself a pulse through the broker. The heartbeat is sent only if the pulse
    arrives and the dispatch queues deliver too: an agent that receives nothing falls silent, and other agents
    get its work. One that lacks a permission says so instead. `silent`: True if the last heartbeat was not
    sent. `gaps`: pulses and heartbeats so far that did not arrive.

    The agent declares the exchanges of heartbeats and its control queue again now and then, and at once if
    the broker has no such exchange, or refuses heartbeats. Then it sends them by the status exchange, so that
    nothing that runs counts as lost, and takes no attempts (`require_proof`).
    """

    def __init__(
        self,
        agent: AgentContext,
        is_receiving_work: Callable[[], bool],
        job_types: Iterable[str] = (),
        find_trouble: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`job_types`: those that it knows. `find_trouble` returns why messages cannot be handled now."""
        super().__init__("goodbye")
        self._agent, self._is_receiving_work = agent, is_receiving_work
        self._job_types, self._find_trouble = tuple(sorted(job_types)), find_trouble
        self._started_at = agent.clock.now()
        self._message_received = asyncio.Event()
        self._grace_until = 0.0
        # A younger attempt is most often over before the heartbeat is read.
        self._min_reported_age = min(agent.settings.agent_announce_delay, agent.settings.agent_heartbeat)
        self._unproved_since: dict[str, float] = {}  # exchanges that did not take the last message
        self._refused_until: dict[str, float] = {}
        self._declaring: asyncio.Task[None] | None = None
        self._declare_at = 0.0
        self.open = self.draining = self.silent = False
        self.gaps = 0

    def begin(self) -> None:
        """Start sending heartbeats, once all parts have started. The first may be late: the broker is still
        busy with the declarations."""
        self._grace_until = (
            self._agent.clock.monotonic() + _FIRST_GRACE * self._agent.settings.agent_heartbeat
        )
        self._declare_at = self._agent.clock.monotonic() + _DECLARE_INTERVAL
        self.open, self.draining = True, False

    def note_message(self) -> None:
        """Note that a message arrived on the control queue."""
        self._message_received.set()

    async def send_heartbeat(self) -> None:
        """Send one pulse, and one heartbeat if it came back."""
        if not self.open:
            return
        self._message_received.clear()
        timeout = self._agent.settings.agent_heartbeat
        sent = await self._publish(self._pulse(), timeout)
        if sent is PublishResult.CONFIRMED and not await wait_at_most(
            timeout, self._message_received, self._agent.clock
        ):
            sent = PublishResult.UNKNOWN
        self._note(topology.CONTROL, sent)
        # A pulse that the broker refuses says nothing about the path by which work arrives.
        is_connected = sent is not PublishResult.UNKNOWN and (self.draining or self._is_receiving_work())
        if not is_connected and find_refusal(_BESIDES) is None:
            self.silent = True
            if self._agent.clock.monotonic() >= self._grace_until:
                _log.warning(
                    "No heartbeat was sent: the agent receives no messages.",
                    action="agent.stalled",
                    running=len(self._agent.running),
                )
            return
        self._grace_until = 0.0
        self.silent = not await self._send(timeout)

    @property
    def obstacle(self) -> str | None:
        """Why supervisors may not know that the agent lives; None if they do, or did a moment ago."""
        before = self._agent.clock.monotonic() - _UNPROVED_AFTER * self._agent.settings.agent_heartbeat
        for exchange, since in self._unproved_since.items():
            if since <= before:
                return (
                    f"expected exchange {exchange} to carry the heartbeats of this agent, got none back; run "
                    "`warrener topology --check`, and grant its user the permission to write there"
                )
        return None

    def require_proof(self) -> None:
        """Raise PresenceUnproved if supervisors may not know that the agent lives."""
        if (obstacle := self.obstacle) is not None:
            raise PresenceUnproved(obstacle)

    async def check(self) -> None:
        """Raise NotReady if supervisors may not know that the agent lives."""
        if (obstacle := self.obstacle) is not None:
            raise NotReady(obstacle)

    async def _send(self, timeout: float) -> bool:
        """Send a heartbeat, by the status exchange if its own does not take it; True if the broker has it."""
        event = self._heartbeat()
        message = build_message(event)
        sent = await self._publish(message, timeout)
        self._note(message.exchange, sent)
        if sent in (PublishResult.UNROUTABLE, PublishResult.REFUSED):
            route = events.AgentHeartbeat.routes[1]
            other = message._replace(exchange=route.exchange, routing_key=route.key_for(event.data))
            sent = await self._publish(other, timeout)
        return sent is PublishResult.CONFIRMED

    async def _publish(self, message: Message, timeout: float) -> PublishResult:
        """Publish; UNKNOWN if the broker does not answer within `timeout`. The bus itself waits longer for a
        connection, and the agent would learn late that it is silent."""
        now, interval = self._agent.clock.monotonic(), self._agent.settings.agent_heartbeat
        if now < self._refused_until.get(message.exchange, 0.0):
            return PublishResult.REFUSED
        [sent] = await self._agent.bus.publish([message], timeout=timeout)
        if sent is PublishResult.REFUSED:
            self._refused_until[message.exchange] = now + _REFUSED_PAUSE * interval
        return sent

    def _note(self, exchange: str, sent: PublishResult) -> None:
        """Note whether the exchange carries messages; declare it again, with the bindings, if it is missing
        or has carried none for a second time, and when it is due."""
        now = self._agent.clock.monotonic()
        is_due = now >= self._declare_at
        if sent is PublishResult.CONFIRMED:
            self._unproved_since.pop(exchange, None)
        else:
            self.gaps += 1
            is_due |= sent is PublishResult.UNROUTABLE or exchange in self._unproved_since
            self._unproved_since.setdefault(exchange, now)
        if is_due and (self._declaring is None or self._declaring.done()):
            self._declare_at = now + _DECLARE_INTERVAL
            self._declaring = asyncio.create_task(self._declare_again(), name="declare presence again")

    async def _declare_again(self) -> None:
        """Declare beside the heartbeats, which must not wait for a connection."""
        try:
            await self._agent.bus.declare(Topology(_EXCHANGES, (self._agent.own_control_queue,)))
        except Exception as error:  # noqa: BLE001 - the next heartbeat that is not taken tries again
            _log.warning(
                "The exchanges of heartbeats could not be declared again.",
                action="agent.presence_not_declared",
                error=str(error),
            )

    async def _on_drain(self) -> None:
        """Announce that the agent ends, so that its silence counts as no loss."""
        self.draining = True
        await self._send(_GOODBYE_TIMEOUT)

    async def send_requested_heartbeat(self) -> None:
        """Send a heartbeat that a supervisor requested. The request has arrived, so no pulse is needed."""
        if self.open and (self.draining or self._is_receiving_work() or find_refusal(_BESIDES) is not None):
            await self._send(_GOODBYE_TIMEOUT)

    def _pulse(self) -> Message:
        return Message(
            exchange=topology.CONTROL,
            routing_key=topology.pulse_key(self._agent.agent_id),
            body=b"",
            content_type=PULSE,
            message_id=str(self._agent.entropy.new_id()),
            type="pulse",
            headers={},
            persistent=False,
        )

    def _heartbeat(self) -> events.AgentHeartbeat:
        now = self._agent.clock.monotonic()
        running = tuple(
            events.HeartbeatAttempt(job_id=run.data.job_id, attempt=run.data.attempt, held=run.is_held)
            for run in self._agent.running
            if run.is_held or run.announced or run.outlives(self._min_reported_age, now)
        )
        return events.AgentHeartbeat(
            id=str(self._agent.entropy.new_id()),
            source=f"warrener/agent/{self._agent.agent_id}",
            time=self._agent.clock.now(),
            data=events.AgentHeartbeatData(
                agent_id=self._agent.agent_id,
                host=socket.gethostname(),
                pid=os.getpid(),
                queues=self._agent.queues,
                slots=self._agent.running.slots,
                running=running,
                started_at=self._started_at,
                draining=self.draining,
                job_types=self._job_types if len(self._job_types) <= _MAX_TYPES_LISTED else None,
                free_slots={queue: max(0, self._agent.running.free(queue)) for queue in self._agent.queues},
                trouble=find_refusal(_BESIDES) or self.obstacle or self._find_trouble(),
                code_version=self._agent.code_version,
            ),
        )


class ReadyGate(ManagedComponent):
    """Starts the heartbeats and their check when all parts have started, and marks the agent as draining: it
    stands last, so it drains first. Heartbeats go on until the end."""

    def __init__(self, heartbeater: Heartbeater) -> None:
        super().__init__("heartbeats", heartbeater.check)
        self._heartbeater = heartbeater

    async def _on_start(self) -> None:
        self._heartbeater.begin()

    async def _on_drain(self) -> None:
        self._heartbeater.draining = True


class ControlHandler:
    """Carries out control messages: cancellations, breaker states, answers and requests of supervisors, and
    the agent's own pulses."""

    def __init__(self, agent: AgentContext, heartbeater: Heartbeater, start_gate: StartGate) -> None:
        self._agent, self._heartbeater, self._start_gate = agent, heartbeater, start_gate

    async def handle(self, delivery: Delivery) -> None:
        self._heartbeater.note_message()
        if delivery.content_type not in (EVENT_TYPE, BATCH_TYPE):
            return  # a pulse: its arrival is all that counts
        ignored = 0
        for element in decode_message(delivery, max_events=self._agent.settings.batch_limit):
            event = element.event if isinstance(element, DecodedEvent) else None
            if isinstance(event, events.AttemptCancel):
                await self._cancel(event)
            elif isinstance(event, events.AgentHeartbeatRequested):
                self._start_gate.note_supervisor()
                await self._heartbeater.send_requested_heartbeat()
            elif isinstance(event, events.AttemptsChecked):
                await self._start_gate.apply(event.data)
            elif isinstance(event, events.BreakerChanged):
                if self._agent.breaker_filter.update(event.data, self._agent.clock.monotonic()):
                    _control_log.info(
                        "A circuit breaker changed its state: attempts are given back while it is open.",
                        action="agent.breaker_changed",
                        breaker=event.data.name,
                        state=event.data.state.value,
                        reason=event.data.reason,
                    )
            else:
                ignored += 1
        if ignored:
            _control_log.warning(
                "A control message that this agent cannot use was ignored.",
                action="agent.control_ignored",
                routing_key=delivery.routing_key,
                events=ignored,
            )

    async def _cancel(self, event: events.AttemptCancel) -> None:
        data = event.data
        if data.attempt is None:  # every attempt: the ledger refuses later claims too
            await self._agent.ledger.cancel([data.job_id], now=self._agent.clock.now())
        for run in self._agent.running:
            if run.data.job_id == data.job_id and data.attempt in (None, run.data.attempt):
                _control_log.info(
                    "A running attempt was stopped on request.",
                    action="agent.cancelling",
                    job_id=str(data.job_id),
                    attempt=run.data.attempt,
                    reason=data.reason,
                )
                run.request_stop(StopCause.CANCELLED, data.reason)
