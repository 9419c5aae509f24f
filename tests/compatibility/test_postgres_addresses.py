"""The store and the ledger take one grammar of addresses: several servers, of which some are dead, silent or
standbys, certificates, and no pooler. Real servers throughout."""

import os
import shutil
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from infra.amqp.tests.test_tls import Certificates
from tests.faults.postgres_proxy import by_way_of
from tests.servers.kinds import PostgresServer
from tests.servers.postgres import PrivatePostgres, account, group_of
from tests.servers.standby import StandbyPostgres
from tests.store_access import opened_store
from tests.store_rows import queued_job

from warrener_agent.ledger import connected_ledger, open_ledger
from warrener_agent.ledger.port import Claim, LedgerUnavailable
from warrener_agent.ledger.postgres_sessions import CLAIMS
from warrener_contracts.postgres_limits import session_settings
from warrener_devservers import ServerMissing
from warrener_devservers.process import GuardedProcess, GuardSpec, free_block
from warrener_store import StoreUnavailable, migrate, open_store
from warrener_store.databases.address import SESSION

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
    with pytest.raises((StoreUnavailable, LedgerUnavailable), match="expected a valid certificate"):
        await write(url_of(server, server.port, sslmode="verify-full", sslrootcert=f"{folder}/guest.pem"))


@either
async def test_16_a_certificate_that_is_not_there_is_named(
    write: Write, secure: tuple[PrivatePostgres, Path]
) -> None:
    server, folder = secure
    with pytest.raises((StoreUnavailable, LedgerUnavailable), match=r"sslrootcert of .* got no .*/lost\.pem"):
        await write(url_of(server, server.port, sslmode="verify-ca", sslrootcert=f"{folder}/lost.pem"))


_SETTINGS = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = users
pool_mode = transaction
ignore_startup_parameters = {ignored}
"""


OURS = sorted({*SESSION, *CLAIMS, *session_settings(lock=1, statement=2, idle_transaction=3)})
NAMED = "a pooler such as PgBouncer answers at 127.0.0.1:.*; name the address of PostgreSQL itself"


@pytest.fixture(params=[(), OURS], ids=["as installed", "configured to drop our settings"])
def pooler(
    request: pytest.FixtureRequest, postgres: PostgresServer, server_folders: Callable[[str], Path]
) -> Iterator[int]:
    """The port of a PgBouncer in transaction mode, which drops these startup parameters, and refuses a client
    that sends others."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if program is None:
        pytest.skip("expected pgbouncer, got none; apt-get install pgbouncer")
    port, owner, folder = free_block((0,)), urlsplit(postgres.url), server_folders("pgbouncer")
    folder.mkdir()
    settings = _SETTINGS.format(server=postgres.port, port=port, ignored=",".join(request.param))
    (folder / "settings").write_text(settings)
    (folder / "users").write_text(f'"{owner.username}" "{owner.password}"\n')
    for path in (folder, folder / "settings", folder / "users"):
        shutil.chown(path, account() or os.geteuid())
    spec = GuardSpec(
        commands=[[program, "settings"]],
        environment={"PATH": os.environ.get("PATH", os.defpath)},
        folder=str(folder),
        log=str(folder / "log"),
        user=account(),
        group=group_of(account()),
    )
    process = GuardedProcess(f"PgBouncer in {folder}", spec)
    process.launch(lambda: accepts(port), 30.0)
    yield port
    process.end(signal.SIGTERM, 10.0)


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("opened", [opened_store, connected_ledger], ids=["store", "ledger"])
async def test_16_a_pooler_in_front_of_the_database_is_named(
    opened: Callable[[str], AbstractAsyncContextManager[object]], pooler: int, postgres_store_url: str
) -> None:
    with pytest.raises((StoreUnavailable, LedgerUnavailable), match=NAMED):
        async with opened(by_way_of(postgres_store_url, pooler)):
            pass
