"""Consumer of the broker's outbound events: each becomes topics, and is forgotten.

Its queue is exclusive, short and drops its oldest messages, so that a console holds up nobody. It is bound to
`warrener.events` alone: bound to requests or reports too, it would hide from the broker that the queue of a
service is missing. Without open pages it is not connected at all.
"""

import asyncio
from collections.abc import Collection
from contextvars import copy_context
from functools import partial
from time import monotonic
from uuid import uuid4

from warrener.web.live.hub import Hub
from warrener_contracts.topology import EVENTS, EXCHANGES, PUBLIC_EVENTS, Binding, Queue, Topology
from warrener_runtime.backoff import ExponentialBackoff, FailureStreak
from warrener_runtime.bus import Bus, DeclareMode, Subscription, open_bus
from warrener_runtime.health import current_health_registry
from warrener_runtime.lifecycle.components import ManagedComponent, cancel
from warrener_runtime.logs import get_logger

log = get_logger("console")

_PREFETCH = 200
_MAX_QUEUE_LENGTH = 2000  # messages
_LOOK_INTERVAL = 0.5  # seconds
_INTERRUPTED_AFTER = 2.0  # seconds without a consumer
_IDLE_AFTER = 60.0  # seconds without an open page

_JOB = "job:"
_TOPICS = {
    "breaker": ("breakers", "incidents", "jobs", "overview", "queues"),
    "agent": ("agents", "jobs", "overview"),
    "service": ("incidents", "queues", "overview"),
}
_OF_STATE = {"dead": ("dead-letters", "incidents"), "rejected": ("parked",)}


class EventConsumer(ManagedComponent):
    """Consumes events while pages are open. Started means that it tries: no broker is needed to start."""

    def __init__(self, url: str, *, namespace: str, hub: Hub, declare: DeclareMode = "if-missing") -> None:
        super().__init__("events for open pages")
        self._hub = hub
        self._open_bus = partial(
            open_bus, url, name="warrener-console", namespace=namespace, connections=1, declare=declare
        )
        self._task: asyncio.Task[None] | None = None
        self._events: Subscription | None = None
        self._backoff = ExponentialBackoff(ceiling=5.0)
        self._streak = FailureStreak(log, consumer=self.name)
        self.received_count = 0
        """The number of messages that have ever arrived."""

    async def _on_start(self) -> None:
        context = copy_context()  # in which the bus finds no registry: a console is ready without a broker
        context.run(current_health_registry.set, None)
        self._task = asyncio.create_task(self._run(), name=self.name, context=context)

    async def _on_drain(self) -> None:
        await self._on_stop()

    async def _on_stop(self) -> None:
        await cancel(self._task)
        self._task = None

    async def _run(self) -> None:
        while True:
            await self._hub.has_viewers.wait()
            bus = self._open_bus()
            receiving = asyncio.create_task(self._receive(bus), name="receive events")
            try:
                await self._watch(receiving)
            except Exception as error:  # noqa: BLE001 - such as refused credentials: it tries again
                self._hub.interrupt()
                self._streak.failed(
                    error, "Events cannot be received; retrying.", monotonic(), action="console.events_failed"
                )
                await asyncio.sleep(self._backoff.failed())
            finally:
                await cancel(receiving)
                await bus.close()
                self._events = None

    async def _receive(self, bus: Bus) -> None:
        """Turn events into topics, across lost connections."""
        await bus.start()
        queue = Queue(
            f"warrener.console.{uuid4()}",
            tuple(Binding(EVENTS, pattern) for pattern in PUBLIC_EVENTS),
            {"x-max-length": _MAX_QUEUE_LENGTH, "x-overflow": "drop-head"},
            exclusive=True,
        )
        exchange = next(exchange for exchange in EXCHANGES if exchange.name == EVENTS)
        await bus.declare(Topology((exchange,), (queue,)))
        self._events = await bus.subscribe(queue.name, prefetch=_PREFETCH)
        async for batch in self._events:
            self.received_count += len(batch)
            for event in batch:
                self._hub.publish(topics_of(event.routing_key, event.body, self._hub.watched))
            await self._events.ack(batch)

    async def _watch(self, receiving: "asyncio.Task[None]") -> None:
        """Report to open pages if events arrive, until nobody looks. Raises why they cannot be received."""
        epoch, live_at, seen_at = 0, monotonic(), monotonic()
        while monotonic() - seen_at < _IDLE_AFTER:
            await asyncio.wait({receiving}, timeout=_LOOK_INTERVAL)
            if receiving.done():
                await receiving
            now = monotonic()
            if self._events is not None and self._events.live:
                live_at = now
                if self._events.epoch != epoch:
                    epoch = self._events.epoch
                    self._backoff.succeeded()
                    self._streak.recovered(
                        "Events are received again.", now, action="console.events_recovered"
                    )
                    self._hub.resume()
            elif now - live_at > _INTERRUPTED_AFTER:
                self._hub.interrupt()
            if self._hub.has_viewers.is_set():
                seen_at = now


def topics_of(routing_key: str, body: bytes, watched: Collection[str]) -> set[str]:
    """Find the topics of a message: general ones, those of its type or schedule, and watched jobs in it.

    The routing key names the kind of an event and its job type or schedule; a job's id is searched for in the
    body. So no body is decoded, however many events arrive. A message does not name its dispatch queue, so it
    changes each queue that is watched; so does a breaker, which may pause it.
    """
    queues = {topic for topic in watched if topic.startswith("queue:")}
    kind, _, rest = routing_key.partition(".")
    word, _, rest = rest.partition(".")
    if kind == "schedule":
        return {"schedules", "overview", f"schedule:{rest.partition('.')[2]}"}
    if kind != "job":
        return {*_TOPICS.get(kind, ()), *(queues if kind == "breaker" else ())}
    state, _, job_type = rest.partition(".") if word == "finished" else (word, "", rest)
    found = {"jobs", "queues", "overview", f"type:{job_type}", *_OF_STATE.get(state, ())}
    jobs = (topic for topic in watched if topic.startswith(_JOB))
    return found | queues | {topic for topic in jobs if topic.removeprefix(_JOB).encode() in body}
