"""The permissions of each role on the broker, derived from the topology and from the routes of the events.

A user of the broker holds one role. RabbitMQ compares the names of exchanges and queues with three regular
expressions (configure, write, read), and the routing keys of a topic exchange with two: for publishing and
for binding. Each pattern here is escaped and anchored: `$` would match before a line feed, and a pattern
without an end a longer name. `docs/howto/restrict-permissions.md` explains the roles.

Three ways lead around topic permissions. The default exchange delivers to any queue by name: the supervisor
alone writes to it. A direct exchange compares no key, and one that a user may bind to another would lead into
that: pings go by `amq.topic`, under keys of their own. A queue of a user may dead-letter into an exchange
that the user writes to, under any key: `inbox` refuses such messages.

From 4.3 on RabbitMQ lets a user look at a piece who holds any permission for it. The scheduler makes missing
dispatch queues and the supervisor any queue, and it counts what waits in them: both hold `write` for these.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from warrener_contracts import topology
from warrener_contracts.events import AgentAnnounced, declared_events
from warrener_contracts.events.envelope import AGENT, ANYONE, SCHEDULER, SUPERVISOR, Party, Route
from warrener_contracts.fields import RESERVED_WORDS
from warrener_contracts.topology import MAX_USER_LENGTH

NOTHING = "(?!)"
"""The pattern that matches no name. `^$` would match the empty routing key, which `#` is bound to."""

_HERE = "HERE"  # stands for a variable part while the topology makes a name
_HEX = "[0-9a-f]{32}"
_RECONNECTED = r"(?:\.[0-9a-f]{8})?"  # what an exclusive queue is named after its connection was lost
_WORD = "[A-Za-z0-9_-]+"
_AGENT_ID = "[A-Za-z0-9_.:@+-]+"
_ANYTHING = r"[^\n]*"
_NO_RESERVED = rf"(?!(?:{'|'.join(sorted(RESERVED_WORDS))})(?:\.|\z))"
"""Before a job type: a request has no key that looks like one of Warrener's own events."""


class BrokerRole(StrEnum):
    """The work of a user of the broker. The values are words of the command line."""

    ASKER = "asker"
    OBSERVER = "observer"
    OPERATOR = "operator"
    CONSOLE = "console"
    AGENT = "agent"
    SCHEDULER = "scheduler"
    SUPERVISOR = "supervisor"
    TOPOLOGY_ADMIN = "topology-admin"


@dataclass(frozen=True, slots=True)
class Holder:
    """A user of the broker and its role.

    - `queues`: those that an agent serves.
    - `job_types`: those that an agent runs (default all), or that others request (default all for an asker,
      none for an operator and the console). `*` stands for any characters.
    - `child_types`: those that the handlers of an agent request (default none).
    """

    role: BrokerRole
    user: str
    namespace: str = "warrener"
    queues: tuple[str, ...] = ()
    job_types: tuple[str, ...] = ()
    child_types: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a name that could be taken for that of another."""
        if not re.fullmatch(rf"(?!-){_WORD}", self.user, re.ASCII) or len(self.user) > MAX_USER_LENGTH:
            raise ValueError(
                f"expected a user of at most {MAX_USER_LENGTH} characters of A-Z, a-z, 0-9, _ and -, got "
                f"{self.user!r}: its reply address could be that of another"
            )
        for queue in self.queues:
            if not re.fullmatch(_WORD, queue, re.ASCII):
                raise ValueError(f"expected a queue of A-Z, a-z, 0-9, _ and -, got {queue!r}")
        for pattern in (*self.job_types, *self.child_types):
            if not re.fullmatch(r"[A-Za-z0-9_.*-]+", pattern, re.ASCII):
                raise ValueError(f"expected a job type such as flights.load or flights.*, got {pattern!r}")


class KeyPatterns(NamedTuple):
    """The routing keys of one topic exchange that a user may publish under, and bind queues to."""

    write: str
    read: str


@dataclass(frozen=True, slots=True)
class Permissions:
    """Regular expressions of names; and of the routing keys of each topic exchange.

    `keys` names all topic exchanges, because one without patterns would permit all keys. None: all keys of
    all exchanges.
    """

    configure: str
    write: str
    read: str
    keys: Mapping[str, KeyPatterns] | None


_PARTIES: Mapping[BrokerRole, Party] = {
    BrokerRole.ASKER: ANYONE,
    BrokerRole.OPERATOR: ANYONE,
    BrokerRole.CONSOLE: ANYONE,
    BrokerRole.AGENT: AGENT,
    BrokerRole.SCHEDULER: SCHEDULER,
    BrokerRole.SUPERVISOR: SUPERVISOR,
}
_COMMANDING = frozenset({BrokerRole.OPERATOR, BrokerRole.CONSOLE})
_REQUESTING = _COMMANDING | {BrokerRole.ASKER}
_OBSERVING = frozenset({BrokerRole.OBSERVER, BrokerRole.CONSOLE})
_ANY_JOB_TYPE = ("*",)
_NAMES_ANY_JOB_TYPE = frozenset({"schedule.put"})
"""Commands by which any job type can be requested: only who may request them all holds them."""
_CONSUMED: Mapping[BrokerRole, tuple[topology.Queue, ...]] = {
    BrokerRole.SCHEDULER: (topology.REQUESTS_QUEUE, topology.SCHEDULER_COMMANDS, topology.TRIGGERS_QUEUE),
    BrokerRole.SUPERVISOR: (
        topology.STATUS_QUEUE,
        topology.SUPERVISOR_COMMANDS,
        topology.LOGS_QUEUE,
        topology.DEAD_QUEUE,
        topology.UNROUTABLE_QUEUE,
    ),
}


def permissions_of(holder: Holder) -> Permissions:
    """Return what this user may do: what its role needs, and nothing else."""
    if holder.role is BrokerRole.TOPOLOGY_ADMIN:
        return _of_topology_admin(holder)
    own = [*_own_queues(holder), _in_namespace(holder, topology.ping_queue(_HERE).name, _HEX)]
    sent, bound = _sent_keys(holder), _bound_keys(holder)
    consumed = [re.escape(_name(holder, queue.name)) for queue in _CONSUMED.get(holder.role, ())]
    configure, write, read = list(own), [*own, *_exchanges(holder, sent)], [*own, *_exchanges(holder, bound)]
    if holder.role is BrokerRole.AGENT:
        read += [re.escape(_name(holder, topology.dispatch_queue(queue).name)) for queue in holder.queues]
    if holder.role is BrokerRole.SCHEDULER:
        write.append(re.escape(_name(holder, topology.TRIGGERS_QUEUE.name)))  # its bindings come and go
    if holder.role in _CONSUMED:  # both tie the namespace to their store
        claim = re.escape(_name(holder, topology.INSTALLATION))
        configure.append(claim)
        write += [rf"{claim}\.{_HEX}", _in_namespace(holder, topology.dispatch_queue(_HERE).name, _WORD)]
        read.append(claim)
    if holder.role is BrokerRole.SUPERVISOR:  # requeues what was parked: to its queue, or to its exchange
        write += [r"amq\.default", *_exchanges(holder, _topic_exchanges())]
        write += [re.escape(_name(holder, queue.name)) for queue in topology.TOPOLOGY.queues]
        read += _exchanges(holder, [topology.HEARTBEATS])
        return Permissions(_any_of(configure), _any_of(write), _any_of([*read, *consumed]), None)
    keys = {
        _name(holder, exchange): KeyPatterns(
            _any_of(sent.get(exchange, ())), _any_of(bound.get(exchange, ()))
        )
        for exchange in _topic_exchanges()
    }
    return Permissions(_any_of(configure), _any_of(write), _any_of([*read, *consumed]), keys)


def commands_of(holder: Holder, vhost: str) -> list[tuple[str, ...]]:
    """Return the calls of rabbitmqctl that give an existing user these permissions, in place of older ones.

    The keys come first, so that at no moment more is permitted.
    """
    found, where = permissions_of(holder), ("-p", vhost, holder.user)
    keys: list[tuple[str, ...]]
    if found.keys is None:
        keys = [("rabbitmqctl", "clear_topic_permissions", *where)]
    else:
        set_keys = ("rabbitmqctl", "set_topic_permissions", *where)
        keys = [(*set_keys, exchange, *patterns) for exchange, patterns in found.keys.items()]
    return [*keys, ("rabbitmqctl", "set_permissions", *where, found.configure, found.write, found.read)]


def _sent_keys(holder: Holder) -> dict[str, list[str]]:
    """The keys that the role publishes under, by exchange."""
    sent: dict[str, list[str]] = {topology.PINGS: [_ping_key(holder)]}
    party = _PARTIES.get(holder.role)
    for route in _routes():
        if party is None or party not in route.senders or not _is_sent(holder, route):
            continue
        sent.setdefault(route.exchange, []).extend(_keys(route.key, _values(holder, route)))
    if holder.role is BrokerRole.AGENT:
        sent.setdefault(topology.CONTROL, []).append(_fill(topology.pulse_key(_HERE), _agent_ids(holder)))
        parked = [re.escape(f"parked.{topology.dispatch_queue(queue).name}") for queue in holder.queues]
        sent.setdefault(topology.DEAD, []).extend(parked)  # what it cannot read
    if holder.role is BrokerRole.SCHEDULER:
        sent.setdefault(topology.DEAD, []).append(rf"parked\.{_ANYTHING}")
    return {exchange: keys for exchange, keys in sent.items() if keys}


def _is_sent(holder: Holder, route: Route) -> bool:
    if holder.role is BrokerRole.AGENT:  # it announces each queue under a key that names it
        return route is not AgentAnnounced.routes[0]
    if holder.role not in _REQUESTING or route.exchange == topology.REQUESTS:
        return True
    if route.key in _NAMES_ANY_JOB_TYPE and holder.job_types != _ANY_JOB_TYPE:
        return False
    return holder.role in _COMMANDING and route.exchange == topology.COMMANDS


def _bound_keys(holder: Holder) -> dict[str, list[str]]:
    """The keys that the role binds its queues to, by exchange."""
    bound: dict[str, list[str]] = {topology.PINGS: [_ping_key(holder)]}
    if holder.role in _REQUESTING:
        bound[topology.EVENTS] = [_fill(topology.reply_key(_reply_address(holder)), _HEX)]
    if holder.role in _OBSERVING:
        first = {route.key.partition(".")[0] for route in _routes() if route.exchange == topology.EVENTS}
        public = "|".join(sorted(first - {topology.reply_key("").rstrip(".")}))
        bound.setdefault(topology.EVENTS, []).append(rf"(?:{public})\.{_ANYTHING}")
    if holder.role is BrokerRole.SCHEDULER:  # events that trigger schedules, those of others among them
        bound[topology.EVENTS] = [rf"(?!reply(?:\.|\z))[^*#\n]{_ANYTHING}"]
    if holder.role is BrokerRole.AGENT:
        bound[topology.CONTROL] = [_fill(topology.pulse_key(_HERE), _agent_ids(holder))]
        for route in _routes():
            if route.exchange == topology.CONTROL and AGENT in route.receivers:
                bound[topology.CONTROL] += _keys(route.key, _values(holder, route))
    return bound


def _values(holder: Holder, route: Route) -> Mapping[str, Sequence[str]]:
    """Patterns for the placeholders of a routing key."""
    if route.exchange != topology.REQUESTS:  # the job types that an agent runs
        job_types = [_job_types(one) for one in holder.job_types or _ANY_JOB_TYPE]
    else:
        chosen = holder.child_types if holder.role is BrokerRole.AGENT else holder.job_types
        if holder.role in (BrokerRole.ASKER, *_CONSUMED) and not chosen:
            chosen = _ANY_JOB_TYPE
        job_types = [_NO_RESERVED + _job_types(one) for one in chosen]
    queues = [re.escape(queue) for queue in holder.queues] if holder.role is BrokerRole.AGENT else [_WORD]
    return {name: [_ANYTHING] for name in route.placeholders} | {
        "job_type": job_types,
        "queue": queues,
        "level": [re.escape(level.name) for level in topology.DELAY_LEVELS],
        "agent_id": [_agent_ids(holder)],
    }


def _own_queues(holder: Holder) -> Iterator[str]:
    """The queues that the user makes for itself. None may have a name that another user may use."""
    if holder.role in _REQUESTING:
        queue = topology.reply_queue(_reply_address(holder))
        yield _in_namespace(holder, queue.name, _HEX) + _RECONNECTED
    if holder.role is BrokerRole.OBSERVER:
        yield _in_namespace(holder, topology.observer_queue(holder.user, _HERE), _WORD)
    if holder.role is BrokerRole.CONSOLE:
        yield _in_namespace(holder, f"warrener.console.{_HERE}", "[0-9a-f-]{36}") + _RECONNECTED
    if holder.role is BrokerRole.AGENT:
        yield _in_namespace(holder, topology.control_queue(_HERE, ()).name, _agent_ids(holder)) + _RECONNECTED
    if holder.role is BrokerRole.SUPERVISOR:
        yield _in_namespace(holder, topology.heartbeats_queue(_HERE).name, _AGENT_ID)


def _of_topology_admin(holder: Holder) -> Permissions:
    """Make the permissions to declare, bind and delete everything that outlives a connection.

    RabbitMQ wants the permission to read a queue that has a dead-letter exchange, and to write to that.
    """
    template = topology.dispatch_queue(_HERE)
    queues, bindings = [*topology.TOPOLOGY.queues, template], dict[str, list[str]]()
    for binding in (binding for queue in queues for binding in queue.bindings):
        bindings.setdefault(binding.exchange, []).append(_fill(binding.key, _WORD))
    names = [re.escape(_name(holder, exchange.name)) for exchange in topology.EXCHANGES]
    names += [_in_namespace(holder, queue.name, _WORD) for queue in queues]
    names += [re.escape(_name(holder, name)) for name in (topology.INSTALLATION, *topology.RETIRED_QUEUES)]
    names += [re.escape(_name(holder, topology.INSTALLATION)) + rf"\.{_HEX}"]
    ping, key = _in_namespace(holder, topology.ping_queue(_HERE).name, _HEX), _ping_key(holder)
    used = _any_of([*names, ping, re.escape(topology.PINGS)])
    keys = {
        _name(holder, exchange): KeyPatterns(NOTHING, _any_of(bindings.get(exchange, ())))
        for exchange in _topic_exchanges()
    }
    levels = "|".join(level.name for level in topology.DELAY_LEVELS)
    probes = _any_of([rf"(?:{levels})\.doctor-{_HEX}"])  # by which `warrener doctor` proves the levels
    delay = _name(holder, topology.DELAY)
    keys[delay] = keys[delay]._replace(write=probes)
    keys[topology.PINGS] = KeyPatterns(_any_of([key]), _any_of([key]))
    return Permissions(_any_of([*names, ping]), used, used, keys)


# -- patterns ----------------------------------------------------------------------------------------------


def _routes() -> Iterator[Route]:
    routes = {route for kind in declared_events().values() for route in kind.routes}
    yield from sorted(routes, key=lambda route: (route.exchange, route.key, route.about))


def _topic_exchanges() -> list[str]:
    return [*(one.name for one in topology.EXCHANGES if one.kind == "topic"), topology.PINGS]


def _exchanges(holder: Holder, names: Iterable[str]) -> list[str]:
    return [re.escape(_name(holder, name)) for name in names]


def _name(holder: Holder, name: str) -> str:
    """The name of the code as it is on the broker, where the namespace is its first word."""
    return holder.namespace + name.removeprefix("warrener") if name.startswith("warrener.") else name


def _in_namespace(holder: Holder, name: str, variable: str) -> str:
    return _fill(_name(holder, name), variable)


def _fill(name: str, variable: str) -> str:
    """Escape a name in which `HERE` stands for the pattern `variable`: the last one, as users have names."""
    return variable.join(re.escape(part) for part in name.rsplit(_HERE, 1))


def _keys(key: str, values: Mapping[str, Sequence[str]]) -> list[str]:
    """The patterns of a routing key, one for all values of its placeholders; none if one has no value."""
    found = ""
    for number, part in enumerate(re.split(r"\{(\w+)\}", key)):
        if number % 2 == 0:
            found += re.escape(part)
        elif not (wanted := values.get(part)):
            return []
        else:
            found += wanted[0] if len(wanted) == 1 else f"(?:{'|'.join(wanted)})"
    return [found]


def _job_types(pattern: str) -> str:
    return "[A-Za-z0-9_.-]*".join(map(re.escape, pattern.split("*")))


def _ping_key(holder: Holder) -> str:
    return _in_namespace(holder, topology.ping_queue(_HERE).bindings[0].key, _HEX)


def _reply_address(holder: Holder) -> str:
    return topology.reply_address(holder.user, _HERE)


def _agent_ids(holder: Holder) -> str:
    """The ids of agents that a user may use: an agent's begins with its own name."""
    own = holder.role is BrokerRole.AGENT
    return re.escape(topology.agent_id_of(holder.user, "")) + "[A-Za-z0-9-]+" if own else _AGENT_ID


def _any_of(patterns: Iterable[str]) -> str:
    wanted = list(dict.fromkeys(patterns))
    return rf"^(?:{'|'.join(wanted)})\z" if wanted else NOTHING
