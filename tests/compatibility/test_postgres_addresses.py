"""The store and the ledger take one grammar of addresses: several servers, of which some are dead, silent or
standbys, and certificates. Real servers throughout."""

import os
import shutil
import socket
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from infra.amqp.tests.test_tls import Certificates
from tests.servers.kinds import PostgresServer
from tests.servers.standby import StandbyPostgres
from tests.store_access import opened_store
from tests.store_rows import queued_job

from warrener_agent.ledger import Claim, LedgerUnavailable, connected_ledger, open_ledger
from warrener_devservers import PrivatePostgres, ServerMissing
from warrener_devservers.postgres import account
from warrener_devservers.process import free_block
from warrener_store import StoreUnavailable, migrate, open_store

Write = Callable[[str], Awaitable[object]]


async def write_to_store(url: str) -> None:
    await migrate(url)
    async with opened_store(url) as store:
        await store.insert_jobs([queued_job()])


async def write_to_ledger(url: str) -> None:
    async with connected_ledger(url) as ledger:
        await ledger.claim([Claim(uuid4(), 1)], agent_id="ada", lease=timedelta(seconds=9))


either = pytest.mark.parametrize("write", [write_to_store, write_to_ledger], ids=["store", "ledger"])


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


def url_of(server: PostgresServer, *ports: int, **options: str) -> str:
    """A database of the server, looked for at these ports of this host in turn."""
    owner = urlsplit(server.url)
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    query = "&".join(f"{name}={value}" for name, value in options.items())
    return f"postgresql://{owner.username}:{owner.password}@{hosts}/postgres?{query}"


@either
async def test_16_the_next_server_is_taken_if_one_is_dead_silent_or_a_standby(
    write: Write, own_postgres: PostgresServer, own_standby: StandbyPostgres, silent: int
) -> None:
    dead = free_block((0,))
    await write(url_of(own_postgres, dead, silent, own_standby.port, own_postgres.port, connect_timeout="2"))


async def test_16_each_server_is_named_with_what_is_wrong_with_it(
    own_postgres: PostgresServer, own_standby: StandbyPostgres, silent: int
) -> None:
    dead = free_block((0,))
    url = url_of(own_postgres, dead, silent, own_standby.port, connect_timeout="2")
    store = open_store(url)
    with pytest.raises(StoreUnavailable) as refused:
        await store.start()
    with pytest.raises(LedgerUnavailable):
        await open_ledger(url).start()
    text = str(refused.value)
    assert f"127.0.0.1:{silent}: TimeoutError" in text
    assert f"127.0.0.1:{dead}: " in text
    assert f"the server at 127.0.0.1:{own_standby.port} is a standby" in text


@pytest.fixture(scope="module")
def secure(server_folders: Callable[[str], Path]) -> Iterator[tuple[PrivatePostgres, Path]]:
    """A server that takes TLS, and the folder with its certificates."""
    folder = server_folders("certificates")
    folder.mkdir(mode=0o755)
    Certificates(folder).make()
    shutil.chown(folder / "localhost-key.pem", account() or os.geteuid())
    files = {"ssl_cert_file": "localhost.pem", "ssl_key_file": "localhost-key.pem", "ssl_ca_file": "ca.pem"}
    try:
        server = PrivatePostgres(
            server_folders("secure-postgres"),
            settings={"ssl": "on"} | {name: str(folder / file) for name, file in files.items()},
        )
    except ServerMissing as missing:
        pytest.skip(str(missing))
    server.start()
    yield server, folder
    server.remove()


@either
async def test_16_the_servers_certificate_is_checked_and_ours_is_shown(
    write: Write, secure: tuple[PrivatePostgres, Path]
) -> None:
    server, folder = secure
    ours = {"sslcert": f"{folder}/guest.pem", "sslkey": f"{folder}/guest-key.pem"}
    await write(url_of(server, server.port, sslmode="verify-full", sslrootcert=f"{folder}/ca.pem", **ours))
    with pytest.raises((StoreUnavailable, LedgerUnavailable), match="certificate verify failed"):
        await write(url_of(server, server.port, sslmode="verify-full", sslrootcert=f"{folder}/guest.pem"))


@either
async def test_16_a_certificate_that_is_not_there_is_named(
    write: Write, secure: tuple[PrivatePostgres, Path]
) -> None:
    server, folder = secure
    with pytest.raises((StoreUnavailable, LedgerUnavailable), match=r"sslrootcert of .* got no .*/lost\.pem"):
        await write(url_of(server, server.port, sslmode="verify-ca", sslrootcert=f"{folder}/lost.pem"))
