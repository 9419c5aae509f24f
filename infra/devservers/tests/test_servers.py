"""Private servers: ready after start, the same after a kill, never root, ended with their starter, and on
ports that come back."""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import aio_pika
import aio_pika.abc
import aio_pika.exceptions
import pytest
from pamqp.common import FieldValue

from warrener_devservers import PrivateRabbitMQ, ServerFailed, ServerMissing
from warrener_devservers.process import PrivateServer, descendants, free_block

NewFolder = Callable[[str], Path]
Server = TypeVar("Server", bound=PrivateServer)
_QUORUM: dict[str, FieldValue] = {"x-queue-type": "quorum"}


def made(make: Callable[[], Server]) -> Iterator[Server]:
    """Make a server, skip the test if its program is missing, and kill it in the end."""
    try:
        one = make()
    except ServerMissing as missing:
        pytest.skip(str(missing))
    yield one
    one.kill()


@pytest.fixture(scope="module")
def node(server_folders: NewFolder) -> Iterator[PrivateRabbitMQ]:
    """One node that these tests kill, pause and start again, in turn."""
    yield from made(lambda: PrivateRabbitMQ(server_folders("node"), consumer_timeout=timedelta(minutes=3)))


@pytest.fixture
def running(node: PrivateRabbitMQ) -> PrivateRabbitMQ:
    node.start()
    return node


def until(fact: Callable[[], bool], what: str) -> None:
    """Wait for a fact of another process by polling."""
    deadline, pause = time.monotonic() + 60, threading.Event()
    while not fact():
        assert time.monotonic() < deadline, f"expected {what}"
        pause.wait(0.02)


async def test_its_data_belongs_to_its_folder_when_somebody_has_taken_its_port(
    server_folders: NewFolder,
) -> None:
    folder = server_folders("moved")
    first = PrivateRabbitMQ(folder)
    first.start()
    async with await aio_pika.connect(first.url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("kept", durable=True, arguments=_QUORUM)
        await channel.default_exchange.publish(aio_pika.Message(b"hello"), "kept")
    first.stop()
    with socket.create_server(("127.0.0.1", first.port)):
        second = PrivateRabbitMQ(folder, first.port)
        assert second.port != first.port
        second.start()
        async with await aio_pika.connect(second.url) as connection:
            assert await first_of(connection, "kept") == b"hello"
    second.kill()


async def test_what_was_confirmed_survives_a_kill(running: PrivateRabbitMQ) -> None:
    async with await aio_pika.connect(running.url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("kept", durable=True, arguments=_QUORUM)
        message = aio_pika.Message(b"kept", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, "kept")
    url = running.url
    running.settle()
    running.kill()
    assert not running.running
    running.start()
    assert running.url == url
    async with await aio_pika.connect(url) as connection:
        assert await first_of(connection, "kept") == b"kept"


async def first_of(connection: aio_pika.abc.AbstractConnection, name: str) -> bytes:
    """The first message of a queue, as soon as that has it again."""
    arrived = asyncio.Queue[bytes]()

    async def receive(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        await arrived.put(message.body)

    channel = await connection.channel()
    queue = await channel.get_queue(name)
    await queue.consume(receive, no_ack=True)
    async with asyncio.timeout(60):
        return await arrived.get()


def test_a_paused_node_keeps_silent_until_it_may_go_on(running: PrivateRabbitMQ) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as connection:
        running.pause()
        connection.settimeout(0.3)
        try:
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            with pytest.raises(TimeoutError):
                connection.recv(1)
        finally:
            running.resume()
        connection.settimeout(60)
        assert connection.recv(1) == b"\x01"


async def test_each_vhost_is_a_world_of_its_own(running: PrivateRabbitMQ) -> None:
    one, other = running.add_vhost("one"), running.add_vhost("other")
    async with await aio_pika.connect(one) as connection:
        await (await connection.channel()).declare_queue("only-here", durable=True)
    async with await aio_pika.connect(other) as connection:
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            await (await connection.channel()).get_queue("only-here")
    running.drop_vhost("one")
    until(lambda: running.evaluate('rabbit_vhost:exists(<<"one">>)') == "false", "the vhost to be gone")


async def test_cleared_it_has_an_empty_vhost(running: PrivateRabbitMQ) -> None:
    async with await aio_pika.connect(running.url) as connection:
        await (await connection.channel()).declare_queue("full", durable=True, arguments=_QUORUM)
        closed = asyncio.Event()
        connection.close_callbacks.add(lambda _connection, _reason: closed.set())
        await asyncio.to_thread(running.clear)
        await closed.wait()
    async with await aio_pika.connect(running.url) as connection:
        channel = await connection.channel()
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            await channel.get_queue("full")


def test_a_node_has_its_own_folder_and_timeouts_and_no_plugin_but_ours(running: PrivateRabbitMQ) -> None:
    seen = running.evaluate("code:get_path()")
    assert "/rabbit-" in seen
    assert "/rabbitmq_prelaunch-" in seen, "rabbit needs it"
    assert "/rabbitmq_management-" not in seen
    assert "search path" not in running.log.read_text(encoding="utf-8")
    assert running.log.parent.stat().st_mode & 0o077 == 0, "only its owner may enter"
    timeouts = {"consumer_timeout": "180000", "dead_letter_worker_publisher_confirm_timeout": "20000"}
    for key, milliseconds in timeouts.items():
        assert running.evaluate(f"{{ok, T}} = application:get_env(rabbit, {key}), T") == milliseconds


def test_an_error_in_a_question_is_an_error_here_and_a_bad_name_is_refused(running: PrivateRabbitMQ) -> None:
    with pytest.raises(ServerFailed, match="badarith"):
        running.evaluate("1/0")
    assert running.version().count(".") == 2  # and the next question has its answer
    with pytest.raises(ValueError, match="vhost name of A-Z"):
        running.add_vhost('a">>), halt(')


def test_a_wrong_configuration_is_shown_with_the_log(
    server_folders: NewFolder, node: PrivateRabbitMQ
) -> None:
    node.stop()  # two nodes at once are slow on two cores
    wrong = PrivateRabbitMQ(server_folders("wrong"), configuration=["no_such_setting = 1"])
    with pytest.raises(ServerFailed, match="no_such_setting"):
        wrong.start()
    assert not wrong.running


STARTER = """
import sys
from pathlib import Path
from warrener_devservers import PrivateRabbitMQ
node = PrivateRabbitMQ(Path(sys.argv[1]))
node.start()
print(node.port, flush=True)
sys.stdin.read()
"""


def test_a_node_dies_with_the_process_that_started_it(
    server_folders: NewFolder, node: PrivateRabbitMQ
) -> None:
    node.stop()
    command = [sys.executable, "-c", STARTER, str(server_folders("orphan"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        port = int(starter.stdout.readline())
        family = descendants(starter.pid)
        assert len(family) >= 3  # guard, epmd, virtual machine
        starter.kill()
    until(lambda: not any(alive(pid) for pid in family), "all of its processes to be gone, epmd too")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=60)


def test_a_node_dies_with_its_guard(running: PrivateRabbitMQ) -> None:
    virtual_machine = int(running.evaluate("os:getpid()").strip('"'))
    (guard,) = [pid for pid in descendants(os.getpid()) if virtual_machine in descendants(pid)]
    family = descendants(guard)
    os.kill(guard, signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in family), "nothing of the node to be left")
    assert not running.running
    with pytest.raises(ServerFailed, match="is it running"):
        running.version()


def alive(pid: int) -> bool:
    """Whether the process runs; one that ended and waits to be looked at does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_where_a_server_is_missing_its_package_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WARRENER_RABBITMQ_SCRIPTS", str(tmp_path))
    with pytest.raises(ServerMissing, match="apt-get install rabbitmq-server"):
        PrivateRabbitMQ(tmp_path / "server")


# -- ports ------------------------------------------------------------------------------------------------

_OTHER = """
import sys
from warrener_devservers.process import free_block
print(free_block((0,)), flush=True)
sys.stdin.read()
"""


def look_first_at(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    first = (port - 10_000) // 10

    def sample(blocks: range, _: int) -> list[int]:
        return [first, *(block for block in blocks if block != first)]

    monkeypatch.setattr(random, "sample", sample)


def test_a_block_of_another_process_is_not_taken_while_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        look_first_at(theirs, monkeypatch)
        assert free_block((0,)) != theirs
        other.communicate()


def test_a_block_with_one_taken_port_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    base = free_block((0, 1))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", base + 1))
        taken.listen()
        monkeypatch.setattr("warrener_devservers.process._reserved", set[int]())
        look_first_at(base, monkeypatch)
        assert free_block((0, 1)) != base


def test_blocks_of_one_process_differ_and_lie_below_the_ports_of_outgoing_connections() -> None:
    blocks = [free_block((0, 4)) for _ in range(50)]
    assert len(set(blocks)) == 50
    assert all(10_000 <= block <= 32_768 - 5 for block in blocks)
