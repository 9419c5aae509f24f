"""TLS to both servers by the steps of docs/howto/use-tls.md: one line for each refused certificate, and a job
by certificates alone."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.acceptance.command_line import BARE
from tests.acceptance.test_up import HANDLERS, RunningUp
from tests.security.attacks import attack
from tests.servers.postgres import PrivatePostgres, account

from warrener_client import Client
from warrener_devservers import PrivateRabbitMQ, ServerMissing
from warrener_devservers.process import free_block
from warrener_runtime.bus import BusCredentialsRefused, BusUnreachable, open_bus
from warrener_store import StoreUnavailable, open_store

PAGE = Path(__file__).parents[2] / "docs/howto/use-tls.md"
NAME = "warrener"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


class Authority:
    """The folder in which a person follows the page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "ca.conf").write_text(blocks("ini")[0])
        (folder / "steps.sh").write_text(blocks("sh")[0])
        self.run(". ./steps.sh")

    def run(self, steps: str) -> None:
        done = subprocess.run(
            ["sh", "-ec", steps], cwd=self.folder, check=False, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr

    def issue(self, name: str, *options: str) -> None:
        """Issue a certificate of this user, stored under another name."""
        given = f"-subj /CN={NAME} -keyout {name}.key -out {name}.csr"
        self.run(
            f"openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes {given};"
            f"openssl ca -config ca.conf -batch -notext {' '.join(options)} -in {name}.csr -out {name}.pem"
        )

    def copy(self, to: Path, owner: str | None, *names: str) -> None:
        for name in names:
            shutil.copy(self.folder / name, to / name)
            (to / name).chmod(0o600)
            if owner is not None:
                shutil.chown(to / name, owner)


def settings_of(page: str, real: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The settings of a block, with the folders and ports of this test."""
    for line in page.splitlines():
        name, value = (part.strip() for part in line.split("=", 1))
        for there, here in real.items():
            value = value.replace(there, here)
        yield name, value.strip("'")


@dataclass(frozen=True)
class SecureServers:
    """Both servers, as the page configures them."""

    authority: Authority
    broker_port: int
    database_port: int

    def broker(self, *, host: str = "localhost", name: str | None = NAME, ca: str = "ca.pem") -> str:
        own = (
            "" if name is None else f"&certfile={self.file(f'{name}.pem')}&keyfile={self.file(f'{name}.key')}"
        )
        crl = f"&crlfile={self.file('crl.pem')}" if ca == "ca.pem" else ""
        return f"amqps://{NAME}@{host}:{self.broker_port}/?auth=external&cafile={self.file(ca)}{crl}{own}"

    def database(self, *, host: str = "localhost", name: str | None = NAME, ca: str = "ca.pem") -> str:
        own = f"&sslcert={self.file(f'{name}.pem')}&sslkey={self.file(f'{name}.key')}" if name else ""
        crl = f"&sslcrl={self.file('crl.pem')}" if ca == "ca.pem" else ""
        place = f"{NAME}@{host}:{self.database_port}/postgres"
        return f"postgresql://{place}?sslmode=verify-full&sslrootcert={self.file(ca)}{crl}{own}"

    def file(self, name: str) -> Path:
        return self.authority.folder / name


@pytest.fixture(scope="module")
def secure(
    server_folders: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecureServers]:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    authority.issue("expired", "-startdate 20200101000000Z -enddate 20200201000000Z")
    authority.issue("revoked")
    authority.run(
        "openssl ca -config ca.conf -revoke revoked.pem; openssl ca -config ca.conf -gencrl -out crl.pem"
    )
    stranger = tmp_path_factory.mktemp("stranger")
    Authority(stranger)
    for name in ("ca.pem", "warrener.pem", "warrener.key"):
        shutil.copy(stranger / name, authority.folder / f"foreign{'-ca' * (name == 'ca.pem')}{name[-4:]}")
    _, rabbitmq, postgres = blocks("ini")
    port = free_block((0,))
    configuration = [
        f"{name} = {value}"
        for name, value in settings_of(rabbitmq, {"/etc/rabbitmq": str(authority.folder), "5671": str(port)})
        if name != "listeners.tcp"  # the fixture looks at that port for a sign of life
    ]
    folder = server_folders("secure-postgres")
    try:
        node = PrivateRabbitMQ(
            server_folders("secure-broker"),
            plugins=("rabbitmq_auth_mechanism_ssl",),
            configuration=configuration,
        )
        files = folder.parent / "secure-postgres-files"
        database = PrivatePostgres(
            folder,
            settings=dict(settings_of(postgres, {"/etc/postgresql": str(files)}))
            | {"hba_file": str(files / "pg_hba.conf")},
        )
    except ServerMissing as missing:
        pytest.skip(str(missing))
    files.mkdir()
    files.chmod(0o755)
    (authority.folder / "pg_hba.conf").write_text("hostssl all all all cert\n")
    authority.copy(files, account(), "ca.pem", "crl.pem", "postgres.pem", "postgres.key", "pg_hba.conf")
    database.start()
    node.start()
    call = "ok = rabbit_auth_backend_internal:"
    node.evaluate(f'{call}add_user(<<"{NAME}">>, <<"unused">>, <<"test">>)')
    node.evaluate(f'{call}clear_password(<<"{NAME}">>, <<"test">>)')
    rights = ", ".join(['<<".*">>'] * 3)
    node.evaluate(f'{call}set_permissions(<<"{NAME}">>, <<"/">>, {rights}, <<"test">>)')
    yield SecureServers(authority, port, database.port)
    node.kill()
    database.kill()


async def refusal_of_broker(url: str) -> str:
    """The one line of a service that connects so. It ends at once, unless no reason arrives."""
    bus = open_bus(url, name="test", connect_timeout=5)
    with pytest.raises((BusCredentialsRefused, BusUnreachable)) as refused:
        await bus.start()
    assert "\n" not in str(refused.value)
    return str(refused.value)


async def refusal_of_database(url: str) -> str:
    store = open_store(url)
    try:
        with pytest.raises(StoreUnavailable) as refused:
            await store.start()
    finally:
        await store.close()
    assert "\n" not in str(refused.value)
    return str(refused.value)


# -- the broker ----------------------------------------------------------------------------------------


@attack(
    "network",
    "stands in for the broker with a certificate of its own",
    refused="the check of the certificate (`cafile`)",
)
async def test_a_broker_of_an_unknown_authority_is_refused(secure: SecureServers) -> None:
    assert "self-signed certificate" in await refusal_of_broker(secure.broker(ca="foreign-ca.pem"))


@attack(
    "network",
    "stands in for the broker with the certificate of another host",
    refused="the check of the name",
)
async def test_a_broker_under_another_name_is_refused(secure: SecureServers) -> None:
    assert "IP address mismatch" in await refusal_of_broker(secure.broker(host="127.0.0.1"))


@attack("former guest", "connects to the broker with an expired certificate", refused="TLS of RabbitMQ")
async def test_a_client_whose_certificate_has_expired_is_refused_by_the_broker(secure: SecureServers) -> None:
    assert "this client's certificate" in await refusal_of_broker(secure.broker(name="expired"))


@attack(
    "stranger",
    "connects to the broker with a certificate that names a user, of another authority",
    refused="TLS of RabbitMQ",
)
async def test_a_client_of_an_unknown_authority_is_refused_by_the_broker(secure: SecureServers) -> None:
    assert "this client's certificate" in await refusal_of_broker(secure.broker(name="foreign"))


@attack("stranger", "connects to the broker without a certificate", refused="TLS of RabbitMQ")
async def test_a_client_without_a_certificate_is_refused_by_the_broker(secure: SecureServers) -> None:
    assert "this client's certificate" in await refusal_of_broker(secure.broker(name=None))


@attack(
    "network",
    "stands in for the broker with its stolen, revoked certificate",
    refused="the list of revoked certificates (`crlfile`)",
)
async def test_a_broker_whose_certificate_was_revoked_is_refused(secure: SecureServers) -> None:
    authority = secure.authority
    authority.run(
        "cp index.txt before; openssl ca -config ca.conf -revoke rabbitmq.pem;"
        "openssl ca -config ca.conf -gencrl -out later.pem; cp before index.txt"
    )
    url = secure.broker().replace("crl.pem", "later.pem")
    assert "certificate revoked" in await refusal_of_broker(url)


# -- the database --------------------------------------------------------------------------------------


@attack("network", "stands in for PostgreSQL with a certificate of its own", refused="`sslmode=verify-full`")
async def test_a_database_of_an_unknown_authority_is_refused(secure: SecureServers) -> None:
    assert "self-signed certificate" in await refusal_of_database(secure.database(ca="foreign-ca.pem"))


@attack(
    "network",
    "stands in for PostgreSQL with the certificate of another host",
    refused="`sslmode=verify-full`",
)
async def test_a_database_under_another_name_is_refused(secure: SecureServers) -> None:
    assert "IP address mismatch" in await refusal_of_database(secure.database(host="127.0.0.1"))


@attack("former guest", "connects to PostgreSQL with an expired certificate", refused="TLS of PostgreSQL")
async def test_a_client_whose_certificate_has_expired_is_refused_by_postgresql(secure: SecureServers) -> None:
    refusal = await refusal_of_database(secure.database(name="expired"))
    assert "accept this client's certificate" in refusal


@attack("thief", "connects to PostgreSQL with a revoked certificate", refused="`ssl_crl_file`")
async def test_a_client_whose_certificate_was_revoked_is_refused_by_postgresql(secure: SecureServers) -> None:
    refusal = await refusal_of_database(secure.database(name="revoked"))
    assert "accept this client's certificate" in refusal


@attack("stranger", "connects to PostgreSQL without a certificate", refused="`pg_hba.conf`")
async def test_a_client_without_a_certificate_is_refused_by_the_database(secure: SecureServers) -> None:
    assert "valid client certificate" in await refusal_of_database(secure.database(name=None))


# -- all of it -----------------------------------------------------------------------------------------


def test_a_service_ends_with_one_line_about_the_certificate(secure: SecureServers, tmp_path: Path) -> None:
    environment = {
        **BARE,
        "WARRENER_BROKER_URL": secure.broker(host="127.0.0.1"),
        "WARRENER_STORE_URL": f"sqlite:///{tmp_path / 'state.db'}",
    }
    subprocess.run([sys.executable, "-m", "warrener", "migrate"], env=environment, check=True, cwd=tmp_path)
    ended = subprocess.run(
        [sys.executable, "-m", "warrener_scheduler"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode != 0
    (line,) = [line for line in (ended.stdout + ended.stderr).splitlines() if "IP address mismatch" in line]
    assert json.loads(line)["action"] == "service.failed"


async def test_a_job_runs_by_certificates_alone(secure: SecureServers, tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(HANDLERS)
    store = secure.database()
    up = RunningUp(tmp_path, "--broker", secure.broker(), "--store", store, "--ledger", store)
    try:
        up.until("ready")
        async with Client(secure.broker()) as client:
            job = await client.request("hello.greet", {"name": "Ada"})
            assert await job.result(timeout=60) == "Hello, Ada!"
    finally:
        up.process.terminate()
        up.wait_ended()
        up.end()
