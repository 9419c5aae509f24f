"""The exchanges and queues of Warrener, declared once; the same on RabbitMQ 3.10, 4.0 and 4.3.

Arguments of a queue cannot be changed once it exists, so what stands here is part of the wire. Which
arguments are safe on every version was measured; `docs/explanation/topology.md` gives the reasons.
"""

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
DELAY = "warrener.delay"
RETURN = "warrener.return"
DEAD = "warrener.dead"
EVENTS = "warrener.events"
UNROUTABLE = "warrener.unroutable"
INSTALLATION = "warrener.installation"

MAX_BODY = 1024 * 1024  # bytes; what is larger is refused at the edge: send a URL to it instead
MAX_MESSAGE = (
    8 * MAX_BODY
)  # what services say among themselves: a request in its envelope, batches of outcomes

MAX_EVENTS = 10_000  # of one message; a setting of each service

# Nothing here may be dropped after too many deliveries; -1 drops at the first one on RabbitMQ 3.10.
_UNLIMITED_DELIVERIES = 1_000_000
_DISPATCH_DELIVERIES = 20
_MAX_QUEUE_LENGTH = 10_000_000  # messages; beyond it publishers are refused and keep what they have

Argument = str | int
Arguments = Mapping[str, Argument]
_NONE: Arguments = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Exchange:
    """A durable exchange; `alternate` receives what no queue is bound for."""

    name: str
    kind: str = "topic"
    alternate: str | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """Messages of `exchange` that match `key` go to the queue."""

    exchange: str
    key: str


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and what is bound to it. `exclusive` ones live as long as their connection."""

    name: str
    bindings: tuple[Binding, ...]
    arguments: Arguments = field(default_factory=lambda: _NONE)
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class Topology:
    """What one service needs to exist before it works."""

    exchanges: tuple[Exchange, ...]
    queues: tuple[Queue, ...]

    def with_queues(self, queues: Iterable[Queue]) -> "Topology":
        """This topology and these queues too."""
        return Topology(self.exchanges, (*self.queues, *queues))


@dataclass(frozen=True, slots=True)
class DelayLevel:
    """One step of the delay ladder: a queue in which every message waits the same time."""

    name: str
    delay: timedelta

    @property
    def queue(self) -> str:
        """The name of its queue."""
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


# A wake-up up to this much early counts as on time: the rungs end on whole seconds, clocks do not.
_EARLY_TOLERANCE = timedelta(milliseconds=250)
_MAX_LATENESS = timedelta(seconds=5)


def delay_level_for(delay: timedelta) -> DelayLevel | None:
    """The rung on which a message with `delay` still to go waits next; None where it may go at once.

    That is the shortest rung that ends in time or a little late (a tenth of the delay, at most 5 s), else the
    longest that ends early: whoever receives a wake-up that is early (`letters.is_early`) sends it up again
    with what is left. So 59 s is 1m, and 70 s is 1m + 5s + 5s. Nothing goes more than a quarter of a second
    early, and what is shorter than the shortest rung waits there: sent back at once it would run in a circle
    until its time has come.
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
    Exchange(UNROUTABLE, kind="fanout"),
    Exchange(REQUESTS),
    Exchange(DISPATCH),
    Exchange(STATUS, alternate=UNROUTABLE),
    Exchange(HEARTBEATS),
    Exchange(CONTROL),
    Exchange(DELAY, alternate=UNROUTABLE),
    Exchange(RETURN, alternate=UNROUTABLE),
    Exchange(DEAD, alternate=UNROUTABLE),
    Exchange(EVENTS),
)


def _work_queue(
    name: str, dead_key: str, *bindings: Binding, deliveries: int = _UNLIMITED_DELIVERIES
) -> Queue:
    """A queue that loses nothing: quorum, refusing when full, dead-lettering at least once.

    Consumers that crash in a loop say nothing about the messages, so the number of deliveries is no reason to
    give one up. Only dispatch queues have a limit: the supervisor judges an attempt that reaches it.
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
    """A queue behind which there is nothing: it never gives a message up."""
    arguments: dict[str, Argument] = {"x-queue-type": "quorum", "x-delivery-limit": _UNLIMITED_DELIVERIES}
    return Queue(name, (Binding(exchange, "#"),), MappingProxyType(arguments))


def _delay_queue(level: DelayLevel) -> Queue:
    arguments: dict[str, Argument] = {
        "x-queue-type": "quorum",
        "x-message-ttl": int(level.delay.total_seconds() * 1000),
        "x-overflow": "reject-publish",
        "x-dead-letter-strategy": "at-least-once",
        "x-dead-letter-exchange": RETURN,  # no routing key: `<rung>.<where it returns to>` is kept
    }
    return Queue(level.queue, (Binding(DELAY, f"{level.name}.#"),), MappingProxyType(arguments))


REQUESTS_QUEUE = _work_queue("warrener.requests", "dead.requests", Binding(REQUESTS, "#"))
STATUS_QUEUE = _work_queue("warrener.status", "dead.status", Binding(STATUS, "#"))
TRIGGERS_QUEUE = _work_queue("warrener.triggers", "dead.triggers")
"""What schedules wait for. Its bindings come and go with them: without such a schedule it has none."""
DEAD_QUEUE = _last_resort("warrener.dead", DEAD)
UNROUTABLE_QUEUE = _last_resort("warrener.unroutable", UNROUTABLE)
DELAY_QUEUES = tuple(_delay_queue(level) for level in DELAY_LEVELS)

TOPOLOGY = Topology(
    EXCHANGES,
    (
        REQUESTS_QUEUE,
        STATUS_QUEUE,
        TRIGGERS_QUEUE,
        DEAD_QUEUE,
        UNROUTABLE_QUEUE,
        *DELAY_QUEUES,
    ),
)

RETIRED_QUEUES = ("warrener.heartbeats",)
"""Queues of earlier versions that no service uses. They are bounded; `warrener doctor` names those that are
left. No service deletes them: until a rolling upgrade is over, older replicas consume them."""


def dispatch_queue(queue: str) -> Queue:
    """Where attempts for `queue` wait for an agent, whether they come straight or by the ladder."""
    return _work_queue(
        f"warrener.queue.{queue}",
        f"dead.queue.{queue}",
        Binding(DISPATCH, f"{queue}.#"),
        Binding(RETURN, f"*.{queue}.#"),
        deliveries=_DISPATCH_DELIVERIES,
    )


def installation_exchange(installation_id: UUID) -> Exchange:
    """The exchange that says to which installation, that is to which store, a namespace belongs.

    It carries no message. Brokers compare the alternate exchange of a declaration and no argument of ours, so
    the id is the name of an alternate that does not exist: a declaration with another id is refused. It is
    short because the broker cuts its reason at 255 bytes.
    """
    return Exchange(INSTALLATION, kind="fanout", alternate=installation_id.hex)


def heartbeats_queue(supervisor_id: str) -> Queue:
    """The queue in which one supervisor replica receives the heartbeats of all agents.

    Each replica has its own: one that is frozen or has lost its database takes no heartbeat from the others.
    It is bounded, because a frozen consumer must not fill the broker.
    """
    arguments: dict[str, Argument] = {
        "x-queue-type": "classic",
        "x-message-ttl": 60_000,  # milliseconds; an older heartbeat proves nothing
        "x-max-length": 10_000,
        "x-overflow": "drop-head",
    }
    name = f"warrener.heartbeats.{supervisor_id}"
    return Queue(name, (Binding(HEARTBEATS, "#"),), MappingProxyType(arguments), exclusive=True)


def control_queue(agent_id: str, queues: Iterable[str]) -> Queue:
    """The agent's own ear for control; it goes when the agent goes."""
    keys = ("all", f"agent.{agent_id}", *(f"queue.{queue}" for queue in queues))
    return Queue(f"warrener.control.{agent_id}", tuple(Binding(CONTROL, key) for key in keys), exclusive=True)


def reply_queue(address: str) -> Queue:
    """An asker's own ear for answers."""
    return Queue(f"warrener.reply.{address}", (Binding(EVENTS, reply_key(address)),), exclusive=True)


def reply_key(address: str) -> str:
    """The routing key of answers to `address` (a request's `reply_to`)."""
    return f"reply.{address}"
