"""Queues that were declared on one node have one replica when others join, until they are grown."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.servers.cluster import RabbitMQCluster
from typer.testing import Result

from warrener.doctor.replicas import Node, QueueReplicas, compare_replicas
from warrener_devservers import ServerMissing

Run = Callable[..., Result]

_GROW = 'rabbit_quorum_queue:grow(\'{}\', <<".*">>, <<"warrener.*">>, all)'


@pytest.fixture
def one_of_three(server_folders: Callable[[str], Path]) -> Iterator[RabbitMQCluster]:
    """Three nodes that are no cluster yet."""
    try:
        cluster = RabbitMQCluster(server_folders("grown"), plugins=["rabbitmq_management"])
    except ServerMissing as missing:
        pytest.skip(str(missing))
    try:
        cluster.start(joined=1)
        yield cluster
    finally:
        cluster.remove()


def test_18_queues_of_a_grown_cluster_are_named_until_they_have_their_replicas(
    run: Run, one_of_three: RabbitMQCluster
) -> None:
    first = one_of_three.nodes[0]
    where = "--broker", first.url, "--management", first.management_url
    assert run("topology", "--declare", "--broker", first.url).exit_code == 0
    assert json.loads(run("topology", "--check", "--json", *where).stdout) == []

    for number in (1, 2):
        one_of_three.join(number)

    found = {one["what"]: one for one in json.loads(run("topology", "--check", "--json", *where).stdout)}
    requests = found["queue warrener.requests"]
    assert requests["how"] == "has 1 of 3 replicas, on 3 nodes"
    assert requests["do"] == "rabbitmq-queues grow n2@localhost all; rabbitmq-queues grow n3@localhost all"
    assert found["node n1@localhost"]["do"] == "rabbitmq-queues rebalance quorum"
    doctor = run("doctor", "--store", "sqlite:///nothing.db", *where).stdout
    assert "replicas" in doctor
    assert "rabbitmq-queues grow n2@localhost all" in doctor

    for name in ("n2@localhost", "n3@localhost"):
        first.evaluate(_GROW.format(name))
    again = {one["what"] for one in json.loads(run("topology", "--check", "--json", *where).stdout)}
    assert again <= {"node n1@localhost"}, "it may still lead them all"


def replicated(queue: str, leader: str, *members: str) -> QueueReplicas:
    return QueueReplicas(queue, frozenset(members), leader)


def test_18_a_single_node_needs_no_replicas() -> None:
    assert compare_replicas([Node("a", running=True)], [replicated("q", "a", "a")]) == []


def test_18_three_replicas_are_enough_on_five_nodes() -> None:
    nodes = [Node(name, running=True) for name in "abcde"]
    assert compare_replicas(nodes, [replicated("q", "a", *"abc"), replicated("r", "d", *"cde")]) == []


def test_18_a_node_that_is_down_is_named() -> None:
    nodes = [Node("a", running=True), Node("b", running=False)]
    [found] = compare_replicas(nodes, [replicated("q", "a", *"ab")])
    assert (found.what, found.how) == ("node b", "is not running")
