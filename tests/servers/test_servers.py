"""The servers of tests: chosen by what the machine has, with one face, and a real cluster and standby."""

import asyncio
from collections.abc import Callable, Iterator
from typing import TypeVar

import aio_pika
import aiormq
import pytest
from pamqp.common import FieldValue
from tests.acceptance.warren import until
from tests.servers.choosing import CHOICE, KINDS, chosen_servers, first_of
from tests.servers.cluster import RabbitMQCluster
from tests.servers.containers import ContainerPostgres, ContainerRabbitMQ, check_engine
from tests.servers.kinds import PostgresServer
from tests.servers.standby import StandbyPostgres

from warrener_devservers import ServerFailed, ServerMissing


def lacking(what: str) -> str:
    raise ServerMissing(f"expected {what}, got none")


def test_the_first_that_is_here_is_taken_and_where_neither_is_both_are_named() -> None:
    assert first_of(lambda: "one", lambda: lacking("an engine")) == "one"
    assert first_of(lambda: lacking("programs"), lambda: "other") == "other"
    with pytest.raises(ServerMissing, match="expected programs, got none; or: expected an engine, got none"):
        first_of(lambda: lacking("programs"), lambda: lacking("an engine"))


def test_a_release_of_debian_may_be_chosen_and_a_choice_that_there_is_not_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CHOICE, "sid")
    assert chosen_servers() is KINDS["sid"]
    assert getattr(chosen_servers().rabbitmq, "args", ()) == ("sid",)
    monkeypatch.setenv(CHOICE, "cloud")
    with pytest.raises(ValueError, match="private, containers, trixie, sid, auto, got 'cloud'"):
        chosen_servers()


C = TypeVar("C", ContainerPostgres, ContainerRabbitMQ)


@pytest.fixture
def container_rabbitmq() -> Iterator[ContainerRabbitMQ]:
    yield from started(ContainerRabbitMQ)


@pytest.fixture
def container_postgres() -> Iterator[ContainerPostgres]:
    yield from started(ContainerPostgres)


async def test_rabbitmq_keeps_its_vhost_and_its_port_over_a_kill(
    container_rabbitmq: ContainerRabbitMQ,
) -> None:
    url = container_rabbitmq.add_vhost("kept")
    container_rabbitmq.settle()
    container_rabbitmq.kill()
    assert not container_rabbitmq.running
    container_rabbitmq.start()
    async with await aio_pika.connect(url) as connection:
        assert await connection.channel()


def test_postgres_keeps_its_data_and_its_port_over_a_kill(container_postgres: ContainerPostgres) -> None:
    container_postgres.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    url = container_postgres.url
    container_postgres.kill()
    container_postgres.start()
    assert (container_postgres.url, container_postgres.execute("SELECT answer FROM kept")) == (url, "42")


def started(kind: Callable[[], C]) -> Iterator[C]:
    """One container, started, and gone after the test."""
    try:
        check_engine()
        one = kind()
        try:
            one.start()
            yield one
        finally:
            one.remove()
    except ServerMissing as missing:
        pytest.skip(str(missing))


QUORUM: dict[str, FieldValue] = {"x-queue-type": "quorum"}


async def test_a_queue_outlives_its_node_and_a_node_comes_back(rabbitmq_cluster: RabbitMQCluster) -> None:
    first, last = rabbitmq_cluster.nodes[0], rabbitmq_cluster.nodes[2]
    async with aiormq.connect(first.url) as connection:
        channel = await connection.channel()
        await channel.queue_declare("outlives", durable=True, arguments=QUORUM)
        await channel.basic_publish(b"one", routing_key="outlives")
        await asyncio.to_thread(first.settle)
        await asyncio.to_thread(last.kill)

        await channel.basic_publish(b"two", routing_key="outlives")

        await asyncio.to_thread(last.start)
        members = await asyncio.to_thread(last.evaluate, "length(rabbit_nodes:all_running())")
        found = await channel.queue_delete("outlives")
    assert members == "3"
    assert found.message_count == 2


def test_it_follows_refuses_writes_and_takes_them_once_promoted(
    own_postgres: PostgresServer, own_standby: StandbyPostgres
) -> None:
    own_postgres.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    until(lambda: own_standby.has_followed(own_postgres), "the standby to follow")
    assert own_standby.execute("SELECT answer FROM kept") == "42"
    with pytest.raises(ServerFailed, match="read-only transaction"):
        own_standby.execute("INSERT INTO kept VALUES (43)")
    own_standby.promote()
    own_standby.execute("INSERT INTO kept VALUES (43)")
    assert own_standby.execute("SELECT count(*) FROM kept") == "2"
