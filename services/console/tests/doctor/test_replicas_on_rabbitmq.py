"""Queues that were declared on one node have one replica when others join, until they are grown."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.servers.cluster import RabbitMQCluster
from typer.testing import Result

from warrener.context import ResolvedEndpoints
from warrener.doctor.replicas import Node, QueueReplicas, compare_replicas
from warrener.web.api.reads import metrics
from warrener.web.console import open_console
from warrener.web.settings import ConsoleSettings
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


async def scrape(broker: str, management: str | None, store: str) -> dict[str, int]:
    """Read the console's metrics."""
    endpoints = ResolvedEndpoints(broker, store, store, from_up=False, management_url=management)
    async with open_console(endpoints, ConsoleSettings()) as console:
        lines = (await metrics(console)).splitlines()
    return {name: int(value) for name, value in (line.split() for line in lines if line[0] != "#")}


def test_18_queues_of_a_grown_cluster_are_named_until_they_have_their_replicas(
    run: Run, one_of_three: RabbitMQCluster, sqlite_store_url: str
) -> None:
    first = one_of_three.nodes[0]

    def scraped() -> dict[str, int]:
        return asyncio.run(scrape(first.url, first.management_url, sqlite_store_url))

    where = "--broker", first.url, "--management", first.management_url
    assert run("topology", "--declare", "--broker", first.url).exit_code == 0
    assert json.loads(run("topology", "--check", "--json", *where).stdout) == []

    assert scraped()["warrener_queues_lacking_replicas"] == 0

    for number in (1, 2):
        one_of_three.join(number)
    assert scraped()["warrener_broker_nodes"] == 3
    assert scraped()["warrener_queues_lacking_replicas"] > 10

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
    assert scraped()["warrener_queues_lacking_replicas"] == 0


async def test_18_a_gauge_is_0_while_the_management_api_does_not_answer(sqlite_store_url: str) -> None:
    assert await scrape("amqp://127.0.0.1:1/", None, sqlite_store_url) == {"warrener_replicas_known": 0}


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
