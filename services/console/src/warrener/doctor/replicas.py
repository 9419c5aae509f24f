"""Replicas of quorum queues, compared with the nodes of the cluster.

A quorum queue gets its replicas when it is declared. Nodes that join later get none, and RabbitMQ says
nothing: the queue is down with its only node.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast
from urllib.parse import quote

from warrener.doctor import CheckResult, ok, warning
from warrener.doctor.management_api import BindingsUnavailable, ManagementApi, query
from warrener.doctor.topology import TopologyDiff, TopologyDifference
from warrener_runtime.bus.namespace import NameMapper

_WANTED = 3
"""Replicas of a queue, or as many as there are nodes: RabbitMQ's own number for a new one."""
_CHECK = "replicas"
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
    queues = await query(management, f"queues/{virtual_host}?{columns}", "queues", parse_queues)
    try:
        nodes = await query(management, "nodes?columns=name,running", "nodes", parse_nodes)
    except BindingsUnavailable as refused:
        raise BindingsUnavailable(
            f"the nodes of the cluster are unknown: {refused.why}",
            f"rabbitmqctl set_user_tags {management.user} monitoring; or name another user with --management",
        ) from refused
    return nodes, [one for one in queues if names.is_ours(one.queue)]


def parse_queues(body: bytes) -> list[QueueReplicas]:
    """Parse the answer: the quorum queues. Raises ValueError, KeyError, TypeError. Pure."""
    return [
        QueueReplicas(str(one["name"]), frozenset(map(str, one["members"])), str(one.get("leader", "")))
        for one in cast("list[dict[str, Any]]", json.loads(body))
        if one.get("type") == "quorum"
    ]


def parse_nodes(body: bytes) -> list[Node]:
    """Parse the answer. Raises ValueError, KeyError, TypeError. Pure."""
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
        return warning(_CHECK, f"not compared: {reason.why}", reason.do)
    if not (found := compare_replicas(nodes, queues)):
        return ok(_CHECK, f"every queue has its replicas on {len(nodes)} node{'s' if len(nodes) > 1 else ''}")
    advice = dict.fromkeys(one.do for one in found if one.do)
    few = sum(one.what.startswith("queue ") for one in found)
    more = f" and {few - 1} more queues" if few > 1 else ""
    return warning(_CHECK, f"{found[0].what} {found[0].how}{more}", "; ".join(advice))
