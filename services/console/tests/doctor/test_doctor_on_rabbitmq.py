"""What `doctor` and `topology --check` find at a real broker: bindings, alarms, and replicas in a cluster."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiormq.abc import AbstractChannel
from services.console.tests.conftest import Run
from services.console.tests.web.conftest import open_console
from tests.broker_access import on_broker, publish
from tests.faults.broker_alarms import low_on_memory
from tests.servers.cluster import RabbitMQCluster
from tests.servers.kinds import RabbitMQServer

from warrener.web.api import metrics
from warrener_contracts import topology
from warrener_devservers import PrivateRabbitMQ, ServerMissing
from warrener_runtime.bus import open_bus

_GROW = 'rabbit_quorum_queue:grow(\'{}\', <<".*">>, <<"warrener.*">>, all)'


def compared(run: Run, *where: str) -> dict[str, dict[str, Any]]:
    """The differences that `topology --check` names, by what they are of."""
    return {each["what"]: each for each in json.loads(run("topology", "--check", "--json", *where).stdout)}


@pytest.fixture(scope="module")
def managed(server_folders: Callable[[str], Path]) -> Iterator[PrivateRabbitMQ]:
    """A node with the management plugin."""
    try:
        node = PrivateRabbitMQ(server_folders("managed"), plugins=["rabbitmq_management"])
    except ServerMissing as missing:
        pytest.skip(str(missing))
    node.start()
    yield node
    node.remove()


@pytest.fixture
def where(managed: PrivateRabbitMQ, run: Run) -> tuple[str, ...]:
    """Options that name a virtual host of that node, in which all is as it should be."""
    url = managed.add_vhost(f"v-{uuid4().hex[:12]}")
    assert run("topology", "apply", "--broker", url).exit_code == 0
    return "--broker", url, "--management", managed.management_url


async def unbind_requests_and_bind_status_twice(channel: AbstractChannel) -> None:
    await channel.queue_unbind(topology.REQUESTS_QUEUE.name, topology.REQUESTS, "#")
    await channel.queue_bind(topology.STATUS_QUEUE.name, topology.EVENTS, "job.#")


async def declare_a_dispatch_queue_bound_to_nothing(channel: AbstractChannel) -> None:
    etl = topology.dispatch_queue("etl")
    await channel.queue_declare(etl.name, durable=True, arguments={**etl.arguments})


async def declare_as_a_supervisor_does(url: str) -> None:
    bus = open_bus(url, name="supervisor")
    await bus.start()
    await bus.declare(topology.TOPOLOGY.with_queues([topology.dispatch_queue("etl")]), verify=True)
    await bus.close()


def test_bindings_that_are_gone_are_found_and_made_again(run: Run, where: tuple[str, ...]) -> None:
    assert compared(run, *where) == {}
    on_broker(where[1], unbind_requests_and_bind_status_twice)
    on_broker(where[1], declare_a_dispatch_queue_bound_to_nothing)

    found = compared(run, *where)
    gone = found.pop("binding warrener.requests # → warrener.requests")
    strange = found.pop("binding warrener.events job.# → warrener.status")
    for bound in ("warrener.dispatch etl.#", "warrener.return *.etl.#"):
        of_agents = found.pop(f"binding {bound} → warrener.queue.etl")
        assert of_agents["do"].startswith("start an agent of 'etl' again")
    assert not found
    assert run("topology", "--check", "--json", *where).exit_code == 1
    assert (gone["how"], gone["missing"], gone["status"]) == ("is missing", True, "error")
    assert (strange["how"], strange["missing"], strange["status"]) == ("is none of ours", False, "warning")
    doctor = run("doctor", "--store", "sqlite:///nothing.db", *where)
    assert "✗ bindings" in doctor.stdout

    assert run("topology", "apply", *where[:2]).exit_code == 0
    asyncio.run(declare_as_a_supervisor_does(where[1]))
    again = run("topology", "--check", *where)
    assert again.exit_code == 0  # a warning is no fault
    assert "is none of ours" in again.stdout
    assert "unbind it" in again.stderr


async def lose_the_way_into_a_level(channel: AbstractChannel) -> None:
    await channel.queue_unbind("warrener.delay.5m", topology.DELAY, "5m.#")


def test_a_message_is_sent_through_each_delay_level_and_a_broken_one_is_named(
    run: Run, where: tuple[str, ...]
) -> None:
    store = ("--store", "sqlite:///nothing.db")
    assert (
        "✓ delay levels a message came back from each of the 7 levels" in run("doctor", *store, *where).stdout
    )
    on_broker(where[1], lose_the_way_into_a_level)
    broken = run("doctor", *store, *where)
    assert "✗ delay levels broken: 5m: no message came back within 3 s" in broken.stdout
    publish(where[1], topology.DELAY, "1h.etl.load", b"{}")
    busy = run("doctor", *store, *where).stdout
    assert "1h: 1 messages wait there, behind which none comes back in seconds" in busy


def test_a_user_whom_the_api_does_not_let_in(run: Run, where: tuple[str, ...]) -> None:
    wrong = where[3].replace("://", "://guest:wrong-one@")
    result = run("topology", "--check", *where[:3], wrong)
    assert result.exit_code == 0
    assert "does not let user 'guest' see virtual host" in result.stdout
    assert "set_user_tags guest management" in result.stderr
    assert "wrong-one" not in result.output


def test_without_the_plugin_bindings_are_reported_as_not_compared(run: Run, vhost_url: str) -> None:
    run("topology", "apply", "--broker", vhost_url)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        nobody = ("--management", f"http://127.0.0.1:{held.getsockname()[1]}")
        result = run("topology", "--check", "--broker", vhost_url, *nobody)
        assert result.exit_code == 0
        assert "were not compared: nothing answers at http://127.0.0.1:" in result.stdout
        assert "rabbitmq-plugins enable rabbitmq_management" in result.stderr
        assert compared(run, "--broker", vhost_url, *nobody).pop("bindings")["status"] == "warning"
        doctor = run("doctor", "--broker", vhost_url, "--store", "sqlite:///nothing.db", *nobody)
        assert "! bindings     not compared" in doctor.stdout


@contextmanager
def answering(body: bytes, first: Callable[[], object] = lambda: None) -> Generator[str]:
    """An HTTP server that answers everything like this, once `first` has been done; its URL."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            first()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - it is called so there
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


@pytest.mark.parametrize("body", [b"hello", b"{}", b'["a"]', b'[{"source": ""}]'])
def test_something_else_that_speaks_http(run: Run, vhost_url: str, body: bytes) -> None:
    run("topology", "apply", "--broker", vhost_url)
    with answering(body) as url:
        result = run("topology", "--check", "--broker", vhost_url, "--management", url)
    assert result.exit_code == 0
    assert "were not compared" in result.stdout


def test_a_broker_that_is_lost_on_the_way(run: Run, vhost_url: str, broker: RabbitMQServer) -> None:
    run("topology", "apply", "--broker", vhost_url)
    with answering(b"[]", first=broker.close_connections) as url:
        result = run(
            "doctor", "--broker", vhost_url, "--management", url, "--store", "sqlite:///no.db", "--json"
        )
    assert result.exit_code == 1
    item = [each for each in json.loads(result.stdout) if each["check"] == "broker"][-1]
    assert "to go on answering, got:" in item["message"]


def test_an_alarm_is_named_with_what_to_do(run: Run, own_rabbitmq: RabbitMQServer, here: Path) -> None:
    where = ("--broker", own_rabbitmq.url, "--store", f"sqlite:///{here}/state.db")
    assert run("migrate", *where[2:]).exit_code == 0
    assert run("topology", "apply", *where[:2]).exit_code == 0
    with low_on_memory(own_rabbitmq):
        while True:  # the node looks at its memory every second
            found = {each["check"]: each for each in json.loads(run("doctor", *where, "--json").stdout)}
            if "broker alarm" in found:
                break
        assert "low on memory" in found["broker alarm"]["message"]
        assert "rabbitmq-diagnostics alarms" in found["broker alarm"]["do"]
        explained = json.loads(run("explain", "order-17", *where, "--json").stdout)
        assert explained["cause"] == "broker_blocked"


# -- replicas ------------------------------------------------------------------------------------------------


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
    async with open_console(store, broker, management) as console:
        lines = (await metrics(console)).splitlines()
    return {name: int(value) for name, value in (line.split() for line in lines if line[0] != "#")}


def test_18_queues_of_a_grown_cluster_are_named_until_they_have_their_replicas(
    run: Run, one_of_three: RabbitMQCluster, sqlite_store_url: str
) -> None:
    first = one_of_three.nodes[0]

    def scraped() -> dict[str, int]:
        return asyncio.run(scrape(first.url, first.management_url, sqlite_store_url))

    where = "--broker", first.url, "--management", first.management_url
    assert run("topology", "apply", "--broker", first.url).exit_code == 0
    assert compared(run, *where) == {}
    assert scraped()["warrener_queues_lacking_replicas"] == 0

    for number in (1, 2):
        one_of_three.join(number)
    assert scraped()["warrener_broker_nodes"] == 3
    assert scraped()["warrener_queues_lacking_replicas"] > 10

    found = compared(run, *where)
    requests = found["queue warrener.requests"]
    assert requests["how"] == "has 1 of 3 replicas, on 3 nodes"
    assert requests["do"] == "rabbitmq-queues grow n2@localhost all; rabbitmq-queues grow n3@localhost all"
    assert found["node n1@localhost"]["do"] == "rabbitmq-queues rebalance quorum"
    doctor = run("doctor", "--store", "sqlite:///nothing.db", *where).stdout
    assert "replicas" in doctor
    assert "rabbitmq-queues grow n2@localhost all" in doctor

    for name in ("n2@localhost", "n3@localhost"):
        first.evaluate(_GROW.format(name))
    assert compared(run, *where).keys() <= {"node n1@localhost"}, "it may still lead them all"
    assert scraped()["warrener_queues_lacking_replicas"] == 0


async def test_18_a_gauge_is_0_while_the_management_api_does_not_answer(sqlite_store_url: str) -> None:
    assert await scrape("amqp://127.0.0.1:1/", None, sqlite_store_url) == {"warrener_replicas_known": 0}
