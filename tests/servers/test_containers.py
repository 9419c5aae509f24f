"""Servers in containers do what private ones do; where there is no engine or no image, the skip says so."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import aio_pika
import pytest
from tests.servers.containers import ContainerPostgres, ContainerRabbitMQ, check_engine

from warrener_devservers import ServerMissing

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
