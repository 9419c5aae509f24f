"""Differences between the broker's exchanges, queues, bindings and replicas and those that should be."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self, cast
from urllib.parse import quote

from warrener.doctor import CheckResult, CheckStatus, ok, warning
from warrener.doctor.inspector import BrokerInspector
from warrener.doctor.management_api import BindingsUnavailable, ManagementApi, QueueBindings, bindings, query
from warrener_contracts import topology
from warrener_runtime.bus.namespace import NameMapper

_DECLARE = "run `warrener topology apply`"
_RECREATE = "RabbitMQ cannot change it: empty the queue, delete it, then run `warrener topology apply`"
_DELETE = "delete it once no service of an earlier version runs"
_UNBIND = "unbind it (in the management page, for instance), unless it is intended"

_DISPATCH_QUEUES = topology.dispatch_queue("").name
"""Prefix of the queues that job types name; only the broker knows which exist."""


@dataclass(frozen=True, slots=True)
class TopologyDifference:
    """One difference, and what to do about it."""

    what: str
    how: str
    missing: bool = False
    status: CheckStatus = CheckStatus.ERROR
    do: str | None = None

    @classmethod
    def warning(cls, what: str, how: str, do: str) -> Self:
        """Make a difference that is no fault by itself."""
        return cls(what, how, status=CheckStatus.WARNING, do=do)


@dataclass(frozen=True, slots=True)
class TopologyDiff:
    """All differences. `not_compared`: why the existing bindings could not be compared."""

    differences: tuple[TopologyDifference, ...] = ()
    bindings: tuple[TopologyDifference, ...] = ()
    replicas: tuple[TopologyDifference, ...] = ()
    compared: bool = False
    not_compared: BindingsUnavailable | None = None

    @property
    def all(self) -> list[TopologyDifference]:
        """All in one list; bindings that were not compared are a warning in it."""
        found = [*self.differences, *self.bindings, *self.replicas]
        if (reason := self.not_compared) is not None:
            how = f"were not compared: {reason.why}"
            found.append(TopologyDifference.warning("bindings", how, reason.do))
        return found


async def compare_topology(inspector: BrokerInspector, management: ManagementApi) -> TopologyDiff:
    """Compare the broker with the topology of this version, and change nothing."""
    found = await differences(inspector)
    for name in topology.RETIRED_QUEUES:
        if await inspector.queue(name) is not None:
            found.append(TopologyDifference.warning(f"queue {name}", "is of an earlier version", _DELETE))
    absent = {each.what for each in found if each.missing}
    queues = [queue for queue in topology.TOPOLOGY.queues if f"queue {queue.name}" not in absent]
    names = inspector.names
    if not queues:
        return TopologyDiff(_with_broker_names(found, names))  # nothing that could be bound
    try:
        seen = check_same_broker(management, queues, ours(await bindings(management), names))
    except BindingsUnavailable as reason:
        return TopologyDiff(_with_broker_names(found, names), not_compared=reason)
    dispatch = dispatch_queues(seen)
    found += await differences(inspector, topology.Topology((), dispatch))
    exchanges = {each.name for each in topology.TOPOLOGY.exchanges if f"exchange {each.name}" not in absent}
    unlike = compare_bindings((*queues, *dispatch), exchanges, seen)
    return TopologyDiff(_with_broker_names(found, names), _with_broker_names(unlike, names), compared=True)


def _with_broker_names(
    found: Iterable[TopologyDifference], names: NameMapper
) -> tuple[TopologyDifference, ...]:
    """Replace the code's names by those on the broker."""
    return tuple(
        replace(each, what=" ".join(names.to_broker(word) for word in each.what.split(" "))) for each in found
    )


async def differences(
    inspector: BrokerInspector, wanted: topology.Topology = topology.TOPOLOGY
) -> list[TopologyDifference]:
    """Find every exchange and queue that is missing or differs.

    The inspector declares only what exists: the broker accepts an equal declaration and refuses another.
    """
    found: list[TopologyDifference] = []
    for exchange in wanted.exchanges:
        if not await inspector.exchange_exists(exchange.name):
            found.append(_missing(f"exchange {exchange.name}"))
        elif other := await inspector.exchange_differs(exchange):
            found.append(TopologyDifference(f"exchange {exchange.name}", other, do=_RECREATE))
    for queue in wanted.queues:
        if await inspector.queue(queue.name) is None:
            found.append(_missing(f"queue {queue.name}"))
        elif other := await inspector.queue_differs(queue):
            found.append(TopologyDifference(f"queue {queue.name}", other, do=_RECREATE))
    return found


def ours(seen: QueueBindings, names: NameMapper) -> QueueBindings:
    """The queues of the namespace, by the code's names. Pure."""
    return {
        names.from_broker(queue): frozenset(
            topology.Binding(names.from_broker(bound.exchange), bound.key) for bound in bindings_of_it
        )
        for queue, bindings_of_it in seen.items()
        if names.is_ours(queue)
    }


def check_same_broker(
    management: ManagementApi, queues: Iterable[topology.Queue], seen: QueueBindings
) -> QueueBindings:
    """Return `seen`; raise BindingsUnavailable if it has none of the queues that exist. Pure."""
    if any(queue.name in seen for queue in queues):
        return seen
    raise BindingsUnavailable(
        f"{management.url} knows none of the queues that are here: it is that of another broker",
        "correct --management or WARRENER_MANAGEMENT_URL",
    )


def dispatch_queues(seen: QueueBindings) -> tuple[topology.Queue, ...]:
    """The queues of job types that exist. Pure."""
    names = sorted(name for name in seen if name.startswith(_DISPATCH_QUEUES))
    return tuple(topology.dispatch_queue(name.removeprefix(_DISPATCH_QUEUES)) for name in names)


def compare_bindings(
    queues: Iterable[topology.Queue], exchanges: set[str], seen: QueueBindings
) -> list[TopologyDifference]:
    """Find missing bindings, and foreign ones of our queues, which bring them other messages. Pure.

    `exchanges` are those that exist: a binding of a missing exchange is not reported again.
    """
    found: list[TopologyDifference] = []
    for queue in queues:
        there = {bound for bound in seen.get(queue.name, frozenset()) if bound.exchange}
        bind = _DECLARE
        if queue.name.startswith(_DISPATCH_QUEUES):
            name = queue.name.removeprefix(_DISPATCH_QUEUES)
            bind = f"start an agent of {name!r} again: it binds its queue"
        found += [
            _missing(f"binding {bound.exchange} {bound.key} → {queue.name}", bind)
            for bound in queue.bindings
            if bound.exchange in exchanges and bound not in there
        ]
        if queue.name == topology.TRIGGERS_QUEUE.name:
            continue  # the scheduler binds the events that schedules wait for
        for bound in sorted(there - set(queue.bindings), key=lambda bound: (bound.exchange, bound.key)):
            what = f"binding {bound.exchange} {bound.key} → {queue.name}"
            found.append(TopologyDifference.warning(what, "is none of ours", _UNBIND))
    return found


def _missing(what: str, do: str = _DECLARE) -> TopologyDifference:
    return TopologyDifference(what, "is missing", missing=True, do=do)


# -- replicas ----------------------------------------------------------------------------------------------
# A quorum queue gets its replicas when it is declared. Nodes that join later get none, and RabbitMQ says
# nothing: the queue is down with its only node.

_WANTED = 3  # replicas of a queue, or as many as there are nodes: RabbitMQ's own number for a new one
_REBALANCE = "rabbitmq-queues rebalance quorum"


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster."""

    name: str
    running: bool


@dataclass(frozen=True, slots=True)
class QueueReplicas:
    """The nodes that have a replica of a queue, and the one that leads."""

    queue: str
    members: frozenset[str]
    leader: str


async def read_replicas(
    management: ManagementApi, names: NameMapper
) -> tuple[list[Node], list[QueueReplicas]]:
    """Read the nodes of the cluster and the replicas of our queues. Raises BindingsUnavailable."""
    virtual_host = quote(management.virtual_host, safe="")
    columns = "columns=name,type,members,leader"
    queues = await query(management, f"queues/{virtual_host}?{columns}", "queues", _parse_queues)
    try:
        nodes = await query(management, "nodes?columns=name,running", "nodes", _parse_nodes)
    except BindingsUnavailable as refused:
        raise BindingsUnavailable(
            f"the nodes of the cluster are unknown: {refused.why}",
            f"rabbitmqctl set_user_tags {management.user} monitoring; or name another user with --management",
        ) from refused
    return nodes, [one for one in queues if names.is_ours(one.queue)]


def _parse_queues(body: bytes) -> list[QueueReplicas]:
    return [
        QueueReplicas(str(one["name"]), frozenset(map(str, one["members"])), str(one.get("leader", "")))
        for one in cast("list[dict[str, Any]]", json.loads(body))
        if one.get("type") == "quorum"
    ]


def _parse_nodes(body: bytes) -> list[Node]:
    found = cast("list[dict[str, Any]]", json.loads(body))
    return [Node(str(one["name"]), bool(one["running"])) for one in found]


def lacks_replicas(queue: QueueReplicas, nodes: int) -> bool:
    """True if the queue has fewer replicas than RabbitMQ gives a new one on so many nodes."""
    return len(queue.members) < min(nodes, _WANTED)


def compare_replicas(nodes: Iterable[Node], queues: Iterable[QueueReplicas]) -> list[TopologyDifference]:
    """Find nodes that are down, queues with too few replicas, and one node that leads them all. Pure."""
    warn = TopologyDifference.warning
    nodes, queues = list(nodes), sorted(queues, key=lambda one: one.queue)
    found = [
        warn(f"node {node.name}", "is not running", "start it, or `rabbitmqctl forget_cluster_node`")
        for node in nodes
        if not node.running
    ]
    for one in queues:
        if lacks_replicas(one, len(nodes)):
            lacking = sorted({node.name for node in nodes} - one.members)
            found.append(
                warn(
                    f"queue {one.queue}",
                    f"has {len(one.members)} of {min(len(nodes), _WANTED)} replicas, on {len(nodes)} nodes",
                    "; ".join(f"rabbitmq-queues grow {name} all" for name in lacking),
                )
            )
    leaders = {one.leader for one in queues}
    if len(nodes) > 1 and len(queues) >= len(nodes) and len(leaders) == 1:
        [leader] = leaders
        found.append(warn(f"node {leader}", f"leads all {len(queues)} queues", _REBALANCE))
    return found


async def with_replicas(found: TopologyDiff, management: ManagementApi, names: NameMapper) -> TopologyDiff:
    """Add the differences of replicas; they are a warning where they cannot be compared."""
    try:
        differences = compare_replicas(*await read_replicas(management, names))
    except BindingsUnavailable as reason:
        differences = [TopologyDifference.warning("replicas", f"were not compared: {reason.why}", reason.do)]
    return replace(found, replicas=tuple(differences))


async def check_replicas(management: ManagementApi, names: NameMapper) -> CheckResult:
    """Require a replica on each node, and leaders on more than one."""
    try:
        nodes, queues = await read_replicas(management, names)
    except BindingsUnavailable as reason:
        return warning("replicas", f"not compared: {reason.why}", reason.do)
    if not (found := compare_replicas(nodes, queues)):
        return ok(
            "replicas", f"every queue has its replicas on {len(nodes)} node{'s' if len(nodes) > 1 else ''}"
        )
    advice = dict.fromkeys(one.do for one in found if one.do)
    few = sum(one.what.startswith("queue ") for one in found)
    more = f" and {few - 1} more queues" if few > 1 else ""
    return warning("replicas", f"{found[0].what} {found[0].how}{more}", "; ".join(advice))
