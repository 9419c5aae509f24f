"""Commands by FastStream subscribers over aio-pika, one for each kind of command.

FastStream's broker is used as it is. It routes a message to the subscriber whose filter accepts it; a
middleware carries out, retries and acknowledges. `test_faststream_consumer.py` shows the traps that are
avoided here:

- The end of a channel cancels the callbacks that run on it. Commands run in tasks of their own, one at a
  time, so that a redelivered one waits for its first run.
- A half-open connection is noticed after (heartbeat + 1) * 3 seconds. A request on the same channel every
  few seconds notices it sooner.
- The first loss of a channel ends the whole connection, and another broker object makes the next one
  (`connection` says why).
- Properties that aio-pika cannot decode close its connection. The message comes first again, until the queue
  gives it up to the dead letters, which the lean client reads. So pauses between connections are short.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from functools import partial
from types import TracebackType
from typing import Any

import aio_pika
from faststream import AckPolicy, BaseMiddleware
from faststream.message import StreamMessage
from faststream.rabbit import Channel, RabbitBroker, RabbitQueue

from warrener_amqp import pick_host
from warrener_runtime.backoff import ExponentialBackoff, FailureStreak, is_outage
from warrener_runtime.bus.namespace import NameMapper
from warrener_runtime.bus.port import Bus
from warrener_runtime.bus.types import Delivery
from warrener_runtime.commands import (
    PREFETCH,
    SUSPECT_COMMANDS_AFTER,
    CommandCarrier,
    CommandQueue,
    MessageRoute,
    QueueTopology,
)
from warrener_runtime.commands.connection import CommandConnection, complete_url
from warrener_runtime.health import HealthRegistry, NotReady, current_health_registry
from warrener_runtime.lifecycle.components import ManagedComponent, cancel, is_being_cancelled
from warrener_runtime.lifecycle.consumer import RELEASE_TIMEOUT
from warrener_runtime.lifecycle.consumer_health import STALLED_AFTER, ConsumerHealthMonitor, StallMonitor
from warrener_runtime.lifecycle.crashed_readers import IsolatingHandler, is_suspect
from warrener_runtime.logs import get_logger

log = get_logger("commands")

_CONNECT_TIMEOUT = 5.0
_START_TIMEOUT = 20.0
_CHECK_INTERVAL = 3.0
_REPLACE_AFTER = 10.0  # seconds without an answer
_MAX_RELEASES = 3
"""Times that a command which fails by a bug goes back to the queue; then the broker dead-letters it."""
_MAX_WINDOW_DOUBLINGS = 5
_RENEW_AFTER = 60.0
"""Seconds of silence after which another connection consumes (`consumer_health` says why)."""
_LIBRARIES = ("aio_pika", "aiormq")
"""Their loggers repeat each failed try to connect, with a traceback; ours logs one line an outage."""

Call = Callable[[Any], Awaitable[Any]]


def consume_by_faststream(url: str, *, name: str, namespace: str) -> CommandCarrier:
    """Return the carrier for the broker at `url`; operators see its connection by `name`."""
    return partial(FastStreamConsumer, complete_url(url, f"{name} receives commands"), NameMapper(namespace))


class _Settlement(Enum):
    """The end of a delivery."""

    ACK = "acknowledged"
    RETURN = "back to the queue"
    DEAD_LETTER = "to the dead letters, which the supervisor parks"


class FastStreamConsumer(ManagedComponent):
    """Consumes one queue of commands. Started means that it is consumed.

    A command that cannot be carried out is retried in place, with a growing pause, and the service is not
    ready meanwhile. After the registry's `release_timeout`, twice as long after each return, its message
    goes back to the queue, for other replicas, and the queue is consumed again once `probe` succeeds. If that
    happens `_MAX_RELEASES` times in a row and the error is no outage, the message is dead-lettered: a bug
    in one command must not stop all others.
    """

    def __init__(self, url: str, names: NameMapper, commands: CommandQueue, bus: Bus) -> None:
        super().__init__(commands.name)
        self._url, self._names, self._commands = url, names, commands
        self._clock = commands.clock
        self._bus, self._queue = bus, commands.queue.name
        self._streak = FailureStreak(log, consumer=commands.name, queue=self._queue)
        self._connection_streak = FailureStreak(log, consumer=commands.name, queue=self._queue)
        self._health_monitor = ConsumerHealthMonitor(
            commands.name,
            lambda: self.live or self.is_paused,
            clock=self._clock,
            stalled_after=STALLED_AFTER,
            give_up_after=commands.give_up_after,
        )
        self._stall_monitor = StallMonitor(
            commands.name,
            bus,
            self._queue,
            lambda: self if self._connection is not None else None,
            self._clock,
            resubscribe_after=_RENEW_AFTER,
        )
        self._health_registry: HealthRegistry | None = None
        self._connection: CommandConnection | None = None
        self._epoch = 0
        self._releases = 0  # in a row
        self._backoff = ExponentialBackoff()
        self._connection_backoff = ExponentialBackoff(ceiling=1.0)
        self._one_at_a_time = asyncio.Lock()
        self._consuming = asyncio.Event()
        self._stop_requested = asyncio.Event()
        self._last_error: str | None = None
        self._runner: asyncio.Task[None] | None = None
        self._work: set[asyncio.Task[None]] = set()
        self.received_count = 0
        """The number of messages that have ever arrived."""
        self.is_paused: bool = False
        """True while nothing is consumed on purpose: commands could not be carried out."""

    @property
    def live(self) -> bool:
        """True if the broker answers on the connection that consumes, and messages arrive."""
        connection = self._connection
        return connection is not None and connection.answers and not self._stall_monitor.is_starved

    @property
    def has_capacity(self) -> bool:
        """True if the broker may deliver one more."""
        return not self._one_at_a_time.locked()

    @property
    def nothing_unacked(self) -> bool:
        """True if no message is being handled."""
        return not self._one_at_a_time.locked()

    def resubscribe(self) -> None:
        """Consume by another connection."""
        if self._connection is not None:
            self._connection.over.set()

    async def check(self) -> None:
        """Raise NotReady if commands cannot be carried out."""
        if self._last_error:
            meanwhile = "; they were returned to the queue" if self.is_paused else ""
            raise NotReady(
                f"commands of queue {self._queue} cannot be carried out: {self._last_error}{meanwhile}"
            )

    async def _on_start(self) -> None:
        self._stop_requested.clear()
        self._consuming.clear()
        self._health_registry = current_health_registry.get()
        for library in _LIBRARIES:
            logging.getLogger(library).setLevel(logging.CRITICAL)
        self._runner = asyncio.create_task(self._run(), name=self.name)
        await self._consuming.wait()
        await self._health_monitor.start()
        await self._stall_monitor.start()
        if self._health_registry:
            self._health_registry.register(self.name, self.check)

    async def _on_drain(self) -> None:
        self._stop_requested.set()
        async with self._one_at_a_time:  # the command that runs
            pass
        if self._runner is not None:
            await asyncio.wait({self._runner})

    async def _on_stop(self) -> None:
        self._stop_requested.set()
        if self._health_registry:
            self._health_registry.unregister(self.name)
        await self._health_monitor.stop()
        await self._stall_monitor.stop()
        await cancel(self._runner)
        for work in list(self._work):
            await cancel(work)
        self._runner = None
        self._last_error = None

    # -- connections ----------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self._stop_requested.is_set():
            try:
                await self._consume_by_one_connection()
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                    raise
                self._connection_streak.failed(
                    error,
                    "A queue of commands cannot be consumed; retrying.",
                    self._clock.monotonic(),
                    action="commands.consuming_failed",
                )
                await self._pause(self._connection_backoff.failed())
            if self.is_paused and not self._stop_requested.is_set():
                await self._wait_for_probe()

    async def _consume_by_one_connection(self) -> None:
        """Consume until the connection is to be replaced or the component stops. Raises if it is lost."""
        self._epoch += 1
        queue = RabbitQueue(self._names.to_broker(self._queue), declare=False)
        connection = CommandConnection(self._epoch)
        broker = self._broker(queue, connection)
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                await self._bus.declare(QueueTopology([self._commands.queue]))  # it may have been deleted
                await connection.open(broker, queue)
            self._connection = connection
            self._consuming.set()
            await self._watch(connection)
            async with self._one_at_a_time:
                pass  # the running command is acknowledged before the connection is closed
        finally:
            self._connection = None
            await connection.close()

    async def _watch(self, connection: CommandConnection) -> None:
        answered_at = self._clock.monotonic()
        while not await self._over(connection, _CHECK_INTERVAL):
            await connection.check()
            now = self._clock.monotonic()
            if connection.answers:
                answered_at = now
                self._connection_streak.recovered(
                    "Commands are consumed again.", now, action="commands.recovered"
                )
                self._connection_backoff.succeeded()
            elif now - answered_at > _REPLACE_AFTER:
                raise ConnectionError("the broker does not answer on the connection that receives commands")
        if connection.is_lost:
            raise ConnectionError("the broker closed the connection or the channel that receives commands")

    async def _over(self, connection: CommandConnection, seconds: float) -> bool:
        """Wait until the connection is to be replaced or the component stops; False after `seconds`."""
        waits = [asyncio.ensure_future(event.wait()) for event in (connection.over, self._stop_requested)]
        try:
            done, _ = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return bool(done)
        finally:
            for wait in waits:
                wait.cancel()

    def _broker(self, queue: RabbitQueue, connection: CommandConnection) -> RabbitBroker:
        """Make a broker with one subscriber for each kind of command, and one for all other messages."""
        inbox = self._commands.inbox
        broker = RabbitBroker(
            pick_host(self._url),
            timeout=_CONNECT_TIMEOUT,
            default_channel=Channel(prefetch_count=PREFETCH, publisher_confirms=False),
            graceful_timeout=None,  # the drain waits for the running command by itself
            middlewares=[partial(_Settling, consumer=self, connection=connection)],
            logger=None,
            apply_types=False,
        )

        async def decode(message: StreamMessage[aio_pika.IncomingMessage]) -> Any:
            # A message that may have crashed its reader is decoded later, where the try is recorded.
            delivery = self._delivery(message.raw_message, connection)
            suspect = is_suspect(delivery, SUSPECT_COMMANDS_AFTER)
            return delivery if suspect else await inbox.decode(delivery)

        async def carry_out_any(events: Any) -> None:
            await inbox.carry_out(await inbox.decode(events) if isinstance(events, Delivery) else events)

        subscriber = broker.subscriber(queue, ack_policy=AckPolicy.MANUAL, decoder=decode, no_reply=True)
        for route in inbox.routes:
            subscriber(_untyped(route.carry_out), filter=partial(_accepts, route))
        subscriber(_untyped(carry_out_any))  # all other messages
        # A subscriber drops messages that arrive before its start returns, and leaves them unacknowledged.
        # With a prefetch of one that would be the end of consuming.
        subscriber.running = True
        return broker

    # -- one message ----------------------------------------------------------------------------------------

    async def receive(
        self, call_next: Call, message: StreamMessage[Any], connection: CommandConnection
    ) -> None:
        """Carry out and settle a message, in a task that outlives its channel."""
        work = asyncio.create_task(self._receive(call_next, message, connection), name=f"{self.name} command")
        self._work.add(work)
        work.add_done_callback(self._work.discard)
        await asyncio.shield(work)

    async def _receive(
        self, call_next: Call, message: StreamMessage[Any], connection: CommandConnection
    ) -> None:
        async with self._one_at_a_time:
            if connection.over.is_set() or self._stop_requested.is_set():
                return  # it goes back with the channel
            self.received_count += 1

            async def carry_out(_: _Acknowledged, __: list[Delivery]) -> None:
                await call_next(message)

            isolated = IsolatingHandler(
                self._queue, carry_out, self._commands.tries, suspect_after=SUSPECT_COMMANDS_AFTER
            )
            delivery = self._delivery(message.raw_message, connection)
            settlement = await self._with_retries(lambda: isolated(_Acknowledged(), [delivery]), connection)
            with contextlib.suppress(Exception):  # then it is redelivered
                if settlement is _Settlement.ACK:
                    await message.raw_message.ack()
                elif settlement is _Settlement.DEAD_LETTER:
                    await message.raw_message.reject(requeue=False)

    async def _with_retries(
        self, carry_out: Callable[[], Awaitable[None]], connection: CommandConnection
    ) -> _Settlement:
        began = self._clock.monotonic()
        while True:
            try:
                await carry_out()
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                    raise
                failure = error
                self._last_error = f"{type(error).__name__}: {error}"
                self._streak.failed(
                    error,
                    "A command could not be carried out; it is retried after a pause.",
                    self._clock.monotonic(),
                    action="commands.failed",
                )
            else:
                self._record_end("Commands can be carried out again.")
                return _Settlement.ACK
            if self._stop_requested.is_set():
                return _Settlement.RETURN
            if self._clock.monotonic() - began > self._retry_window:
                return self._give_up(failure, connection)
            await self._pause(self._backoff.failed())

    def _give_up(self, error: BaseException, connection: CommandConnection) -> _Settlement:
        is_bug = not isinstance(error, asyncio.CancelledError) and not is_outage(error)
        if is_bug and self._releases >= _MAX_RELEASES:
            log.error(
                "A command was dead-lettered: it kept failing, although there is no outage.",
                action="commands.dead_lettered",
                consumer=self.name,
                queue=self._queue,
                last_error=self._last_error,
            )
            self._record_end("A command that failed was dead-lettered.")
            return _Settlement.DEAD_LETTER
        self._releases += 1
        self.is_paused = True
        connection.over.set()
        return _Settlement.RETURN

    def _record_end(self, text: str) -> None:
        self._last_error = None
        self._releases = 0
        self._backoff.succeeded()
        self._streak.recovered(text, self._clock.monotonic(), action="commands.carried_out")

    @property
    def _retry_window(self) -> float:
        """Seconds for which a command is retried in place."""
        registry = self._health_registry
        first = registry.release_timeout if registry else RELEASE_TIMEOUT
        return float(first * 2 ** min(self._releases, _MAX_WINDOW_DOUBLINGS))

    async def _wait_for_probe(self) -> None:
        log.warning(
            "A command that cannot be carried out was returned; consuming resumes when the probe succeeds.",
            action="commands.released",
            consumer=self.name,
            queue=self._queue,
            last_error=self._last_error,
        )
        while not self._stop_requested.is_set():
            try:
                await self._commands.probe()
            except Exception as error:  # noqa: BLE001 - after any error the probe is repeated
                self._last_error = f"{type(error).__name__}: {error}"
            else:
                self._last_error = None
                break
            await self._pause(self._backoff.failed())
        self.is_paused = False

    async def _pause(self, seconds: float) -> None:
        """Sleep, but not longer than until the stop."""
        sleep = asyncio.ensure_future(self._clock.sleep(seconds))
        stop = asyncio.ensure_future(self._stop_requested.wait())
        try:
            await asyncio.wait({sleep, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            stop.cancel()

    def _delivery(self, message: aio_pika.IncomingMessage, connection: CommandConnection) -> Delivery:
        assert message.delivery_tag is not None
        return self._names.delivery(
            Delivery(
                body=message.body,
                routing_key=message.routing_key or "",
                exchange=message.exchange or "",
                redelivered=bool(message.redelivered),
                tag=message.delivery_tag,
                epoch=connection.epoch,
                content_type=message.content_type,
                message_id=message.message_id,
                type=message.type,
                headers=message.headers,
            )
        )


class _Settling(BaseMiddleware[Any, Any]):
    """Has the consumer carry out and settle each message."""

    def __init__(
        self, msg: Any, /, *, context: Any, consumer: FastStreamConsumer, connection: CommandConnection
    ) -> None:
        super().__init__(msg, context=context)
        self._consumer, self._connection = consumer, connection
        self._is_read = False

    async def consume_scope(self, call_next: Call, msg: StreamMessage[Any]) -> None:
        self._is_read = True
        await self._consumer.receive(call_next, msg, self._connection)

    async def after_processed(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> bool | None:
        """Dead-letter a message that FastStream or the decoder could not read: it would stop the queue."""
        if isinstance(exc_val, Exception) and not self._is_read:
            log.error(
                "A command was dead-lettered: it could not be read.",
                action="commands.dead_lettered",
                consumer=self._consumer.name,
                last_error=f"{type(exc_val).__name__}: {exc_val}",
                exc_info=exc_val,
            )
            with contextlib.suppress(Exception):
                await self.msg.reject(requeue=False)
        return False


class _Acknowledged:
    """The subscription of an isolated message, which its consumer acknowledges."""

    async def ack(self, deliveries: Iterable[Delivery]) -> None:
        """Do nothing yet."""


async def _accepts(route: MessageRoute, message: StreamMessage[Any]) -> bool:
    events = await message.decode()
    return not isinstance(events, Delivery) and route.accepts(events)


def _untyped(carry_out: Call) -> Call:
    """Hide the types of our events from FastStream, which would make models of them."""

    async def handle(events: Any) -> Any:
        return await carry_out(events)

    return handle
