"""The exchanges and queues of Warrener, declared once; the same on RabbitMQ 3.10, 4.0 and 4.3.

The arguments of an existing queue cannot be changed, so they are part of the wire. The arguments here were
measured to be safe on every version; `docs/explanation/topology.md` gives the reasons.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from uuid import UUID

REQUESTS = "warrener.requests"
DISPATCH = "warrener.dispatch"
STATUS = "warrener.status"
HEARTBEATS = "warrener.heartbeats"
CONTROL = "warrener.control"
COMMANDS = "warrener.commands"
DELAY = "warrener.delay"
RETURN = "warrener.return"
DEAD = "warrener.dead"
EVENTS = "warrener.events"
LOGS = "warrener.logs"
UNROUTABLE = "warrener.unroutable"
INSTALLATION = "warrener.installation"
PINGS = "amq.topic"
"""Every virtual host has it. Pings go by a topic exchange, because a user who may bind a direct one to
another exchange, and publish to it, publishes there under any key."""

MANDATORY = frozenset({REQUESTS, DISPATCH, COMMANDS})
"""Exchanges from which the broker returns a message that no queue is bound for."""

MAX_BODY = 1024 * 1024
"""Bytes of a request. A larger one is refused at the edge: send a URL instead of the data."""
MAX_MESSAGE = 8 * MAX_BODY
"""Bytes of a message among the services: a request in its envelope, or a batch of outcomes."""

MAX_EVENTS = 10_000
"""Events of one message (default; a setting of each service)."""

# Work queues never drop a message after too many deliveries; on RabbitMQ 3.10, -1 would drop at the first.
_UNLIMITED_DELIVERIES = 1_000_000
_DISPATCH_DELIVERIES = 20
_MAX_QUEUE_LENGTH = 10_000_000  # messages; a longer queue refuses publishers, which keep their messages
_MAX_LOG_MESSAGES, _MAX_LOG_BYTES = 50_000, 64 * 1024 * 1024

Argument = str | int
Arguments = Mapping[str, Argument]
_NONE: Arguments = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Exchange:
    """A durable exchange; `alternate` receives messages that no queue is bound for."""

    name: str
    kind: str = "topic"
    alternate: str | None = None
    carries: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Binding:
    """Routes messages of `exchange` that match `key` to the queue."""

    exchange: str
    key: str


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and its bindings. An exclusive queue is deleted with its connection."""

    name: str
    bindings: tuple[Binding, ...]
    arguments: Arguments = field(default_factory=lambda: _NONE)
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class Topology:
    """The exchanges and queues that a service declares before it works."""

    exchanges: tuple[Exchange, ...]
    queues: tuple[Queue, ...]

    def with_queues(self, queues: Iterable[Queue]) -> "Topology":
        return Topology(self.exchanges, (*self.queues, *queues))


@dataclass(frozen=True, slots=True)
class DelayLevel:
    """A queue in which every message waits the same time."""

    name: str
    delay: timedelta

    @property
    def queue(self) -> str:
        return f"warrener.delay.{self.name}"


DELAY_LEVELS = (
    DelayLevel("1s", timedelta(seconds=1)),
    DelayLevel("5s", timedelta(seconds=5)),
    DelayLevel("15s", timedelta(seconds=15)),
    DelayLevel("1m", timedelta(minutes=1)),
    DelayLevel("5m", timedelta(minutes=5)),
    DelayLevel("15m", timedelta(minutes=15)),
    DelayLevel("1h", timedelta(hours=1)),
)


# A message this much early counts as on time: delay levels end on whole seconds, clocks do not.
_EARLY_TOLERANCE = timedelta(milliseconds=250)
_MAX_LATENESS = timedelta(seconds=5)


def delay_level_for(delay: timedelta) -> DelayLevel | None:
    """The level on which a message with `delay` to go waits next; None if the message may go at once.

    That is the shortest level that ends in time or a little late (a tenth of the delay, at most 5 s), else
    the longest that ends early. A receiver delays an early message (`messages.is_early`) again by the time
    that is left: 59 s is 1m, and 70 s is 1m + 5s + 5s. No message runs more than a quarter of a second early.
    A delay shorter than the shortest level waits there too, because a message that went straight back would
    circle until its time.
    """
    if delay <= _EARLY_TOLERANCE:
        return None
    late = max(min(delay * 0.1, _MAX_LATENESS), _EARLY_TOLERANCE)
    early = [level for level in DELAY_LEVELS if level.delay <= delay]
    over = next(
        (level for level in DELAY_LEVELS if delay - _EARLY_TOLERANCE <= level.delay <= delay + late), None
    )
    return over or (early[-1] if early else DELAY_LEVELS[0])


EXCHANGES = (
    Exchange(UNROUTABLE, kind="fanout", carries="messages that no queue was bound for"),
    Exchange(REQUESTS, carries="requests, by job type; unroutable messages return to the publisher"),
    Exchange(
        DISPATCH, carries="attempts, by queue and job type; unroutable messages return to the publisher"
    ),
    Exchange(STATUS, alternate=UNROUTABLE, carries="reports about attempts, and cancels of child jobs"),
    Exchange(HEARTBEATS, carries="presence of agents"),
    Exchange(CONTROL, carries="commands to agents"),
    Exchange(
        COMMANDS,
        carries="commands of people and programs to the services; unroutable ones return to the publisher",
    ),
    Exchange(DELAY, alternate=UNROUTABLE, carries="attempts on their way into the delay queues"),
    Exchange(RETURN, alternate=UNROUTABLE, carries="attempts that leave the delay queues"),
    Exchange(DEAD, alternate=UNROUTABLE, carries="dead letters of every queue, and parked messages"),
    Exchange(EVENTS, carries="outbound events and replies, for anyone to bind a queue to"),
    Exchange(LOGS, carries="log lines of attempts"),
)


def _work_queue(
    name: str, dead_key: str, *bindings: Binding, deliveries: int = _UNLIMITED_DELIVERIES
) -> Queue:
    """A queue that loses nothing: quorum, refusing when full, dead-lettering at least once.

    Many deliveries show a consumer that crashes, not a bad message, so they are no reason to drop one. Only
    dispatch queues have a limit: the supervisor judges an attempt that reaches it.
    """
    arguments: dict[str, Argument] = {
        "x-queue-type": "quorum",
        "x-overflow": "reject-publish",
        "x-max-length": _MAX_QUEUE_LENGTH,
        "x-dead-letter-exchange": DEAD,
        "x-dead-letter-routing-key": dead_key,
        "x-dead-letter-strategy": "at-least-once",
        "x-delivery-limit": deliveries,
        "x-queue-leader-locator": "balanced",
    }
    return Queue(name, bindings, MappingProxyType(arguments))


def _last_resort(name: str, exchange: str) -> Queue:
    """A queue without a dead-letter exchange: it never drops a message."""
    arguments: dict[str, Argument] = {"x-queue-type": "quorum", "x-delivery-limit": _UNLIMITED_DELIVERIES}
    return Queue(name, (Binding(exchange, "#"),), MappingProxyType(arguments))


def _lossy_queue(name: str, *bindings: Binding) -> Queue:
    """A queue that drops its oldest messages when it is full, and those that cannot be handled.

    A quorum queue too: the declaration of a classic one fails while its node is down, and no service starts
    without the topology.
    """
    arguments: dict[str, Argument] = {
        "x-queue-type": "quorum",
        "x-overflow": "drop-head",
        "x-max-length": _MAX_LOG_MESSAGES,
        "x-max-length-bytes": _MAX_LOG_BYTES,
        "x-delivery-limit": _DISPATCH_DELIVERIES,
    }
    return Queue(name, bindings, MappingProxyType(arguments))


def _delay_queue(level: DelayLevel) -> Queue:
    arguments: dict[str, Argument] = {
        "x-queue-type": "quorum",
        "x-message-ttl": int(level.delay.total_seconds() * 1000),
        "x-overflow": "reject-publish",
        "x-dead-letter-strategy": "at-least-once",
        "x-dead-letter-exchange": RETURN,  # no routing key: `<level>.<queue>.<job type>` stays
    }
    return Queue(level.queue, (Binding(DELAY, f"{level.name}.#"),), MappingProxyType(arguments))


REQUESTS_QUEUE = _work_queue("warrener.requests", "dead.requests", Binding(REQUESTS, "#"))
STATUS_QUEUE = _work_queue("warrener.status", "dead.status", Binding(STATUS, "#"))
TRIGGERS_QUEUE = _work_queue("warrener.triggers", "dead.triggers")
"""Events that trigger schedules. Its bindings come and go with those schedules."""
SCHEDULER_COMMANDS = _work_queue(
    "warrener.commands.scheduler",
    "dead.commands.scheduler",
    Binding(COMMANDS, "schedule.#"),
    Binding(COMMANDS, "redrive.#"),
    Binding(COMMANDS, "job.redrive_requested"),
    Binding(COMMANDS, "job.drop_requested"),
)
"""Commands have queues of their own, so that none waits behind the traffic of jobs."""
SUPERVISOR_COMMANDS = _work_queue(
    "warrener.commands.supervisor",
    "dead.commands.supervisor",
    Binding(COMMANDS, "job.cancel_requested"),
    Binding(COMMANDS, "job.signal_requested"),
    Binding(COMMANDS, "job.continue_requested"),
    Binding(COMMANDS, "breaker.#"),
    Binding(COMMANDS, "gate.#"),
    Binding(COMMANDS, "incident.#"),
    Binding(COMMANDS, "parked.#"),
)
COMMAND_QUEUES = (SCHEDULER_COMMANDS, SUPERVISOR_COMMANDS)
LOGS_QUEUE = _lossy_queue("warrener.logs", Binding(LOGS, "attempt.logged.#"))
"""Log lines have an exchange and a queue of their own, so that no report of an attempt waits behind them."""
DEAD_QUEUE = _last_resort("warrener.dead", DEAD)
UNROUTABLE_QUEUE = _last_resort("warrener.unroutable", UNROUTABLE)
DELAY_QUEUES = tuple(_delay_queue(level) for level in DELAY_LEVELS)

TOPOLOGY = Topology(
    EXCHANGES,
    (
        REQUESTS_QUEUE,
        STATUS_QUEUE,
        TRIGGERS_QUEUE,
        *COMMAND_QUEUES,
        LOGS_QUEUE,
        DEAD_QUEUE,
        UNROUTABLE_QUEUE,
        *DELAY_QUEUES,
    ),
)

RETIRED_QUEUES = ("warrener.heartbeats",)
"""Queues of earlier versions that no service uses. They are bounded, and `warrener doctor` names those that
still exist. No service deletes them, because older replicas consume them during a rolling upgrade."""


def dispatch_queue(queue: str) -> Queue:
    """The queue of attempts for `queue`, both direct ones and those from the delay queues."""
    return _work_queue(
        f"warrener.queue.{queue}",
        f"dead.queue.{queue}",
        Binding(DISPATCH, f"{queue}.#"),
        Binding(RETURN, f"*.{queue}.#"),
        deliveries=_DISPATCH_DELIVERIES,
    )


def installation_exchange(installation_id: UUID) -> Exchange:
    """The exchange that ties a namespace to one installation, that is to one store.

    It carries no message. Brokers compare the alternate exchange of a declaration and no argument of ours, so
    the id is in the name of an alternate that does not exist: a declaration with another id is refused. The
    user who makes the exchange must be permitted to write to the alternate, so a user with few permissions
    makes one whose name is in the namespace; and short, because the broker cuts its reason at 255 bytes.
    """
    return Exchange(INSTALLATION, kind="fanout", alternate=f"{INSTALLATION}.{installation_id.hex}")


def earlier_installation_exchange(installation_id: UUID) -> Exchange:
    """The same exchange as versions before this one make and expect it: its alternate is the bare id."""
    return Exchange(INSTALLATION, kind="fanout", alternate=installation_id.hex)


def heartbeats_queue(supervisor_id: str) -> Queue:
    """The queue in which one supervisor replica receives the heartbeats of all agents.

    Each replica has its own, so that a frozen one takes no heartbeat from the others. It is bounded, so that
    a frozen one does not fill the broker.
    """
    arguments: dict[str, Argument] = {
        "x-queue-type": "classic",
        "x-message-ttl": 60_000,  # milliseconds; an older heartbeat proves nothing
        "x-max-length": 10_000,
        "x-overflow": "drop-head",
    }
    name = f"warrener.heartbeats.{supervisor_id}"
    return Queue(name, (Binding(HEARTBEATS, "#"),), MappingProxyType(arguments), exclusive=True)


def sentinel_key(supervisor_id: str) -> str:
    """The routing key of a supervisor's sentinels on the exchange of heartbeats: messages to itself that
    prove that heartbeats arrive."""
    return f"sentinel.{supervisor_id}"


def control_queue(agent_id: str, queues: Iterable[str]) -> Queue:
    """The queue of control messages for one agent, deleted with its connection."""
    keys = ("all", f"agent.{agent_id}", pulse_key(agent_id), *(f"queue.{queue}" for queue in queues))
    return Queue(f"warrener.control.{agent_id}", tuple(Binding(CONTROL, key) for key in keys), exclusive=True)


def pulse_key(agent_id: str) -> str:
    """The routing key of an agent's pulses on the control exchange: messages to itself that prove that it
    receives."""
    return f"pulse.{agent_id}"


PUBLIC_EVENTS = ("job.#", "schedule.#", "breaker.#", "agent.#", "service.#")
"""The keys of events on `warrener.events` that anyone may receive; the others are replies."""

MAX_USER_LENGTH = 47  # characters; of an address, 80
_NOT_IN_ADDRESS = re.compile("[^A-Za-z0-9_-]")


def reply_address(user: str, random: str) -> str:
    """The reply address of one requester: its user of the broker, and 32 random hexadecimal digits.

    A permission names the addresses of a user by it: `^reply\\.NAME-[0-9a-f]{32}\\z`. It is one word,
    because earlier services refuse others. Characters that an address cannot have are `-`, and a long name is
    cut; without a user it is the random digits alone.
    """
    return f"{_NOT_IN_ADDRESS.sub('-', user[:MAX_USER_LENGTH])}-{random}" if user else random


def agent_id_of(user: str | None, name: str) -> str:
    """The id of an agent: its user of the broker, by whom permissions name it, and a name."""
    return f"{_NOT_IN_ADDRESS.sub('-', user[:MAX_USER_LENGTH])}@{name}" if user else name


def is_foreign_agent_id(agent_id: str, user: str) -> bool:
    """True if an agent's id names another user of the broker. Ids of earlier versions name none."""
    named, at, name = agent_id.partition("@")
    return bool(at) and agent_id_of(user, name) != f"{named}@{name}"


def reply_queue(address: str) -> Queue:
    return Queue(f"warrener.reply.{address}", (Binding(EVENTS, reply_key(address)),), exclusive=True)


def reply_key(address: str) -> str:
    """The routing key of replies to `address` (a request's `reply_to`)."""
    return f"reply.{address}"


def ping_queue(random: str) -> Queue:
    """The queue by which one process checks that messages reach the broker and come back."""
    name = f"warrener.ping.{random}"
    return Queue(name, (Binding(PINGS, name),), exclusive=True)


def observer_queue(user: str, name: str) -> str:
    """The name of a queue in which an observer receives public events; it declares and binds the queue."""
    return f"warrener.observer.{user}.{name}"
