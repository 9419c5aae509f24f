"""Services whose database address leads to a standby for a while go on by themselves once it leads back,
though nobody ends the sessions that they had there. A real standby, and a proxy that is switched."""

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest
from tests.acceptance.warren import ServiceProcess, Warren, until
from tests.faults.postgres_proxy import PostgresProxy, by_way_of
from tests.servers.kinds import PostgresServer
from tests.servers.standby import StandbyPostgres

from warrener_client import SyncClient
from warrener_store import migrate

MODULE = "tests.acceptance.transaction_handlers"


@pytest.fixture
def proxy(own_postgres: PostgresServer) -> Iterator[PostgresProxy]:
    one = PostgresProxy(own_postgres.port)
    yield one
    one.close()


@pytest.fixture
def routed(own_postgres: PostgresServer, proxy: PostgresProxy, warren: Warren) -> Warren:
    """Its store and its ledger share a database, which it reaches by way of the proxy."""
    url = own_postgres.add_database("routed")
    asyncio.run(migrate(url))
    warren.store_url = warren.ledger_url = by_way_of(url, proxy.port)
    return warren


def is_unready(service: ServiceProcess) -> bool:
    return not service.ready()


def test_15_services_routed_to_a_standby_come_back_with_their_address(
    routed: Warren, own_postgres: PostgresServer, own_standby: StandbyPostgres, proxy: PostgresProxy
) -> None:
    warren = routed
    warren.start_all(MODULE)
    until(lambda: own_standby.has_followed(own_postgres), "the standby to have the tables")
    with SyncClient(warren.broker_url) as client:
        client.request("tick").result(timeout=60)

        proxy.target_port = own_standby.port
        proxy.reset()
        for service in warren.services:
            until(partial(is_unready, service), f"{service.name} to report the standby")
        meanwhile = [client.request("tick") for _ in range(10)]

        proxy.target_port = own_postgres.port  # new connections alone: none is closed
        for job in meanwhile:
            job.result(timeout=60)
        client.request("tick").result(timeout=60)
        warren.wait_ready()
    assert {service.process.poll() for service in warren.services} == {None}, "no service has ended"
