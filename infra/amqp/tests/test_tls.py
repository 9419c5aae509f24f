"""TLS: certificates are checked on both sides, and may say who we are."""

import asyncio
import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from infra.amqp.tests.broker_side import RecordingListener, publish
from infra.amqp.tests.conftest import OpenSession
from pamqp import commands

from warrener_amqp.address import parse_address
from warrener_amqp.session import Session
from warrener_devservers import PrivateRabbitMQ, ServerMissing
from warrener_devservers.process import free_block


@dataclass(frozen=True)
class Certificates:
    folder: Path

    def make(self) -> None:
        """The authority, and certificates of a broker and of a client."""
        self._openssl(  # Python 3.13 requires an authority's key usage
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -out ca.pem -keyout ca-key.pem"
            " -addext keyUsage=critical,keyCertSign,cRLSign"
        )
        (self.folder / "names").write_text(
            "subjectAltName=DNS:localhost,IP:127.0.0.1\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n"
        )
        for name in ("localhost", "guest"):
            self._openssl(
                f"req -newkey rsa:2048 -nodes -subj /CN={name} -out request.pem -keyout {name}-key.pem"
            )
            self._openssl(
                "x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2"
                f" -extfile names -out {name}.pem"
            )

    def _openssl(self, arguments: str) -> None:
        subprocess.run(["openssl", *arguments.split()], cwd=self.folder, check=True, capture_output=True)


@dataclass(frozen=True)
class SecureBroker:
    port: int
    folder: Path

    def url(self, **parameters: str) -> str:
        query = "&".join(f"{key}={value}" for key, value in parameters.items())
        return f"amqps://127.0.0.1:{self.port}/?{query}"


@pytest.fixture(scope="module")
def secure(
    server_folders: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecureBroker]:
    folder = tmp_path_factory.mktemp("certificates")
    Certificates(folder).make()
    port = free_block((0,))
    settings = (
        f"listeners.ssl.default = 127.0.0.1:{port}",
        f"ssl_options.cacertfile = {folder / 'ca.pem'}",
        f"ssl_options.certfile = {folder / 'localhost.pem'}",
        f"ssl_options.keyfile = {folder / 'localhost-key.pem'}",
        "ssl_options.verify = verify_peer",
        "ssl_options.fail_if_no_peer_cert = false",
        "auth_mechanisms.1 = PLAIN",
        "auth_mechanisms.2 = EXTERNAL",
        "ssl_cert_login_from = common_name",
    )
    try:
        node = PrivateRabbitMQ(
            server_folders("secure"), plugins=("rabbitmq_auth_mechanism_ssl",), configuration=settings
        )
    except ServerMissing as missing:
        pytest.skip(str(missing))
    node.start()
    yield SecureBroker(port, folder)
    node.kill()


async def test_a_password_over_tls(open_session: OpenSession, secure: SecureBroker) -> None:
    session, listener = (
        await open_session(secure.url(cafile=str(secure.folder / "ca.pem"))),
        RecordingListener(),
    )
    channel = await session.channel(listener)
    await channel.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
    await channel.call(commands.Queue.Declare(queue="q", exclusive=True), commands.Queue.DeclareOk)
    await channel.call(commands.Basic.Consume(queue="q"), commands.Basic.ConsumeOk)
    for _ in range(20):
        publish(session, channel, "q", b"x" * 300_000)
        await session.transport.drain()
    await listener.until(lambda: listener.confirmed == len(listener.deliveries) == 20)
    assert {len(delivery.body) for delivery in listener.deliveries} == {300_000}


async def test_a_certificate_instead_of_a_password(open_session: OpenSession, secure: SecureBroker) -> None:
    folder = secure.folder
    files = {"cafile": "ca.pem", "certfile": "guest.pem", "keyfile": "guest-key.pem"}
    named = {name: str(folder / file) for name, file in files.items()}
    session = await open_session(secure.url(**named, auth="external"))
    assert session.is_open


async def test_a_broker_that_we_do_not_know_gets_no_password(secure: SecureBroker) -> None:
    session = Session(parse_address(secure.url()))
    with pytest.raises(ssl.SSLCertVerificationError):
        await session.open()
    await session.close()


async def test_a_renewed_certificate_is_read_again(secure: SecureBroker, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes((secure.folder / "guest.pem").read_bytes())  # it vouches for nobody
    where = parse_address(secure.url(cafile=str(tmp_path / "ca.pem")))
    with pytest.raises(ssl.SSLCertVerificationError):
        await Session(where).open()
    (tmp_path / "ca.pem").write_bytes((secure.folder / "ca.pem").read_bytes())
    session = Session(where)
    async with asyncio.timeout(60):
        await session.open()
        await session.close()
