"""A stage for an agent: a broker in memory, a SQLite ledger, and somebody who listens to what it says."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast
from uuid import UUID, uuid4

from warrener_agent import Agent, Fail, JobContext, RetryAfter
from warrener_agent.ledger import connected_ledger, open_ledger
from warrener_agent.ledger.port import Claim, Ledger, LedgerUnavailable
from warrener_agent.run_table import DeliveryRef
from warrener_agent.settings import AgentSettings
from warrener_agent.wiring import assemble
from warrener_contracts import events, topology
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.messages import batch_messages, build_delayed_message, build_message
from warrener_contracts.policy import Guarantee
from warrener_runtime.bus import Bus, Delivery, PublishResult, Subscription
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.clock import Clock, SystemClock, SystemEntropy
from warrener_runtime.lifecycle import Component
from warrener_runtime.telemetry import Telemetry

E = TypeVar("E", bound=events.Event[Any])
WAIT = 60.0
LONG = timedelta(minutes=5)
"""A timeout that no busy machine reaches; a test that needs its end sets a `HastenedClock` forward."""


@dataclass
class Stage:
    broker: MemoryBroker
    bus: MemoryBus
    ledger_url: str
    received_events: list[events.Event[Any]] = field(default_factory=list[events.Event[Any]])
    parked: list[Delivery] = field(default_factory=list[Delivery])
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    running: list[tuple[Component, Bus, Ledger]] = field(default_factory=list[tuple[Component, Bus, Ledger]])
    _listeners: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    async def enter(
        self,
        agent: Agent,
        *,
        bus: Bus | None = None,
        ledger: "Ledger | LedgerProxy | None" = None,
        telemetry: Telemetry | None = None,
        clock: Clock | None = None,
        end_process: Callable[[int], Any] | None = None,
        agent_id: str | None = None,
        **settings: Any,
    ) -> Component:
        """Start an agent with its own connection and its own view of the ledger."""
        bus, used = bus or MemoryBus(self.broker), cast("Ledger", ledger or open_ledger(self.ledger_url))
        await bus.start()
        await used.start()
        values: dict[str, Any] = {"agent_slots": 4, "agent_heartbeat": 0.2, **settings}
        one = assemble(
            agent,
            bus,
            used,
            clock or SystemClock(),
            SystemEntropy(),
            telemetry or Telemetry.disabled(),
            AgentSettings(**values),
            agent_id=agent_id,
            end_process=end_process,
        )
        self.running.append((one, bus, used))
        await one.start()
        return one

    async def leave(self, one: Component) -> None:
        (place,) = [place for place in self.running if place[0] is one]
        self.running.remove(place)
        await one.stop()
        await place[1].close()
        await place[2].close()

    async def drain(self, one: Component) -> None:
        await one.drain()
        await self.leave(one)
        assert self.broker.ready(topology.dispatch_queue("default").name) == 0, "all was acknowledged"

    async def expire_claims(self) -> None:
        """Let the leases of all claims be over, as after a long time in which nobody renewed them."""
        claims = self.ledger_url.removeprefix("sqlite:///") + "-claims"

        def expire() -> None:
            with closing(sqlite3.connect(claims, timeout=WAIT)) as file:
                file.execute("UPDATE warrener_claims SET lease_until = claimed_at WHERE agent_id IS NOT NULL")
                file.commit()

        await asyncio.to_thread(expire)

    async def dispatch(
        self, job_type: str, arguments: dict[str, Any] | None = None, trace: str | None = None, **fields: Any
    ) -> UUID:
        """What the scheduler sends (`fields`: see `dispatched`); returns the job's id."""
        event = dispatched(job_type, arguments, **fields).model_copy(update={"traceparent": trace})
        message = build_message(event)
        if event.data.not_before:
            message = build_delayed_message(event, datetime.now(UTC))
        assert await self.bus.publish([message]) == [PublishResult.CONFIRMED]
        return event.data.job_id

    async def dispatch_together(self, *dispatches: events.AttemptDispatched) -> None:
        """What the scheduler sends of a job type that was declared so: all of these in one message."""
        (message,) = batch_messages(
            build_message(event)._replace(dispatch_batch=len(dispatches)) for event in dispatches
        )
        assert await self.bus.publish([message]) == [PublishResult.CONFIRMED]

    async def cancel(self, job_id: UUID) -> None:
        data = events.AttemptCancelData(job_id=job_id, reason="enough")
        await self.bus.publish(
            [build_message(events.AttemptCancel(id=str(uuid4()), source="test", data=data))]
        )

    async def delivery(self, *dispatches: events.AttemptDispatched) -> DeliveryRef:
        """A delivery of these events, as an agent has it that runs them; of one, if none are given."""
        queue = topology.dispatch_queue("default")
        await self.bus.declare(topology.Topology((), (queue,)))
        await self.dispatch_together(*(dispatches or [dispatched("wait")]))
        subscription = await self.bus.subscribe(queue.name, prefetch=1)
        (delivery,) = await anext(aiter(subscription))
        return DeliveryRef(subscription, delivery, "default", len(dispatches) or 1, 0.0)

    async def until(self, fact: Callable[[], bool], what: str = "it to become true") -> None:
        try:
            async with asyncio.timeout(WAIT), self.changed:
                await self.changed.wait_for(fact)
        except TimeoutError:
            raise AssertionError(
                f"expected {what}, heard {[event.type for event in self.received_events]}"
            ) from None

    def about(self, job_id: UUID) -> list[events.Event[Any]]:
        return [event for event in self.received_events if getattr(event.data, "job_id", None) == job_id]

    def of(self, kind: type[E], job_id: UUID | None = None) -> list[E]:
        found = self.received_events if job_id is None else self.about(job_id)
        return [event for event in found if isinstance(event, kind)]

    async def wait_for_event(self, kind: type[E], job_id: UUID | None = None, *, times: int = 1) -> E:
        await self.until(lambda: len(self.of(kind, job_id)) >= times, f"{times} {kind.__name__}")
        return self.of(kind, job_id)[-1]

    async def succeed(
        self, job_type: str, arguments: Any = None, **fields: Any
    ) -> events.AttemptSucceededData:
        job_id = await self.dispatch(job_type, arguments, **fields)
        return (await self.wait_for_event(events.AttemptSucceeded, job_id)).data

    async def fail(self, job_type: str, arguments: Any = None, **fields: Any) -> events.AttemptFailedData:
        job_id = await self.dispatch(job_type, arguments, **fields)
        return (await self.wait_for_event(events.AttemptFailed, job_id)).data

    async def effects(self) -> list[str]:
        async with (
            connected_ledger(self.ledger_url) as ledger,
            ledger.transaction(Claim(uuid4(), 1), agent_id="reader") as transaction,
        ):
            return [str(row["note"]) for row in await transaction.execute("SELECT note FROM effects")]

    async def listen(self) -> None:
        await self.bus.start()
        heartbeats = topology.heartbeats_queue("stage")
        await self.bus.declare(topology.TOPOLOGY.with_queues([heartbeats]))
        for queue in (topology.REQUESTS_QUEUE, topology.STATUS_QUEUE, heartbeats, topology.DEAD_QUEUE):
            await self.receive_from(queue.name)

    async def receive_from(self, queue: str) -> None:
        subscription = await self.bus.subscribe(queue, prefetch=1000)
        self._listeners.append(asyncio.create_task(self._take(queue, subscription)))

    async def _take(self, queue: str, subscription: Subscription) -> None:
        async for batch in subscription:
            async with self.changed:
                for delivery in batch:
                    if queue == topology.DEAD_QUEUE.name:
                        self.parked.append(delivery)
                        continue
                    for element in decode(delivery.body, delivery.content_type):
                        assert isinstance(element, DecodedEvent), element
                        self.received_events.append(element.event)
                self.changed.notify_all()
            await subscription.ack(batch)

    async def close(self) -> None:
        for one, *_ in list(self.running):
            await self.leave(one)
        await self.bus.close()
        await asyncio.gather(*self._listeners)


def dispatched(
    job_type: str,
    arguments: dict[str, Any] | None = None,
    *,
    job_id: UUID | None = None,
    attempt: int = 1,
    timeout: timedelta = timedelta(seconds=30),
    at: datetime | None = None,
    **data: Any,
) -> events.AttemptDispatched:
    values: dict[str, Any] = {
        "queue": "default",
        "guarantee": Guarantee.IDEMPOTENT,
        "max_attempts": 3,
        "requested_at": at or datetime.now(UTC),
        **data,
    }
    return events.AttemptDispatched(
        id=str(uuid4()),
        source="test",
        time=at,
        data=events.AttemptDispatchedData(
            job_id=job_id or uuid4(),
            attempt=attempt,
            job_type=job_type,
            arguments=arguments or {},
            timeout=timeout,
            **values,
        ),
    )


class HastenedClock(SystemClock):
    """The machine's clock, which a test sets forward when what it waits for is there: so a timeout may be
    longer than any pause of the machine, and is over at once.

    An agent with such a clock needs a longer `agent_claim_ttl`: its leases end as soon.
    """

    def __init__(self) -> None:
        self._ahead = 0.0
        self._sleepers: set[asyncio.Future[None]] = set()

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self._ahead)

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead

    async def sleep(self, seconds: float) -> None:
        until = self.monotonic() + seconds
        await asyncio.sleep(0)
        while (left := until - self.monotonic()) > 0:
            sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._sleepers.add(sleeper)
            try:
                await asyncio.wait({sleeper}, timeout=left)
            finally:
                self._sleepers.discard(sleeper)

    def skip(self, time: timedelta) -> None:
        """Set it forward, and wake all sleepers: those that are not due yet go on sleeping."""
        self._ahead += time.total_seconds()
        for sleeper in self._sleepers:
            sleeper.set_result(None)
        self._sleepers.clear()


class LedgerProxy:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


class UnpluggedLedger(LedgerProxy):
    gone = False

    def __getattr__(self, name: str) -> Any:
        if self.gone and name in {"renew", "claim", "complete", "fail", "release"}:
            raise LedgerUnavailable("expected a database, got none")
        return super().__getattr__(name)


class SlowLedger(LedgerProxy):
    """A ledger whose calls of one kind last until the test lets them go on."""

    def __init__(self, ledger: Ledger, slow: str) -> None:
        super().__init__(ledger)
        self._slow, self.begun, self.go_on = slow, asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        call = super().__getattr__(name)
        if name != self._slow:
            return call

        async def wait_first(*values: Any, **named: Any) -> Any:
            self.begun.set()
            await self.go_on.wait()
            return await call(*values, **named)

        return wait_first


class HandlerRig:
    def __init__(self) -> None:
        self.agent = Agent()
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.go_on = asyncio.Event()
        self.calls = 0

        @self.agent.job("greet")
        async def greet(name: str) -> str:
            self.calls += 1
            return f"Hello, {name}!"

        @self.agent.job("wait")
        async def wait(job: JobContext) -> int:
            self.calls += 1
            self.begun.put_nowait(job.idempotency_key)
            await self.go_on.wait()
            return job.attempt

        @self.agent.job("write", guarantee="transactional")
        async def write(job: JobContext, note: str) -> str:
            self.calls += 1
            transaction = await job.transaction()
            await transaction.execute("CREATE TABLE IF NOT EXISTS effects (note TEXT)")
            await transaction.execute("INSERT INTO effects VALUES (:note)", {"note": note})
            if note == "slow":
                self.begun.put_nowait(note)
                await self.go_on.wait()
            job.request("greet", {"name": note}, key="greeting")
            if note == "bad":
                raise ValueError("no good")
            return note

        @self.agent.job("fail", no_retry_on=(KeyError,))
        async def fail(how: str) -> None:
            if how == "cancels itself":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.Event().wait()
            errors: dict[str, BaseException] = {
                "for good": Fail("never"),
                "listed": KeyError("x"),
                "later": RetryAfter("5m", "busy"),
                "exit": SystemExit(3),
                "interrupt": KeyboardInterrupt(),
                "cancelled": asyncio.CancelledError(),
            }
            raise errors.get(how, RuntimeError(how))
