"""RabbitMQ and PostgreSQL in containers, by testcontainers, with the face of the private processes."""

import gc
import socket
import threading
import time
import warnings
from collections.abc import Callable
from typing import cast

import docker  # type: ignore[import-untyped] # it brings no types, and those of types-docker are of an old one
from docker.errors import DockerException  # type: ignore[import-untyped]
from docker.models.containers import Container  # type: ignore[import-untyped]
from testcontainers.community.postgres import PostgresContainer
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from tests.servers.postgres import PostgresCommands

from warrener_devservers import RabbitMQCommands, ServerFailed, ServerMissing
from warrener_devservers.process import free_block

RABBITMQ_IMAGE = "rabbitmq:4-management"
POSTGRES_IMAGE = "postgres:17"
_READY_WITHIN = 120.0  # seconds
_NAME = "warrener"

# Ryuk, which would end what a killed test run leaves, is an image of its own: not every machine can pull it.
testcontainers_config.ryuk_disabled = True


class _InContainer:
    """One container, which keeps its port and its files over a kill."""

    def __init__(self, container: DockerContainer, inner_port: int) -> None:
        self.port = free_block((0,))
        self._inner_port = inner_port
        self._made = container.with_bind_ports(inner_port, self.port)
        self._started = False

    @property
    def running(self) -> bool:
        if not self._started:
            return False
        self._container.reload()
        return bool(self._container.status == "running")

    @property
    def host(self) -> str:
        return self._made.get_container_host_ip()

    def start(self) -> None:
        try:
            if self._started:
                self._container.start()
            else:
                self._made.start()
        except DockerException as error:  # above all an image that is not here and cannot be pulled
            raise ServerMissing(f"expected a container of {self._made.image}, got {error}") from error
        self._started = True
        _wait_until(self.answers, f"{self._made.image} to answer")

    def answers(self) -> bool:
        raise NotImplementedError

    def stop(self) -> None:
        """End it in order; it keeps its files."""
        if self._started:
            self._container.stop(timeout=60)

    def kill(self) -> None:
        """SIGKILL; it keeps its files."""
        if self.running:
            self._container.kill()

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        self._container.pause()

    def resume(self) -> None:
        self._container.unpause()

    def remove(self) -> None:
        self._made.stop()

    def run(self, *command: str) -> str:
        code, output = self._made.exec(list(command))
        text = cast("bytes", output).decode(errors="replace").strip()
        if code:
            raise ServerFailed(f"expected {command[0]} to work in {self._made.image}, got: {text}")
        return text

    @property
    def _container(self) -> Container:
        return self._made.get_wrapped_container()


class ContainerRabbitMQ(_InContainer, RabbitMQCommands):
    """A node in a container."""

    user = _NAME

    def __init__(self, image: str = RABBITMQ_IMAGE) -> None:
        container = DockerContainer(image)
        container.with_env("RABBITMQ_DEFAULT_USER", _NAME).with_env("RABBITMQ_DEFAULT_PASS", _NAME)
        super().__init__(
            container.with_kwargs(hostname="rabbitmq"), 5672
        )  # the name of a node holds its data

    @property
    def url(self) -> str:
        return f"amqp://{_NAME}:{_NAME}@{self.host}:{self.port}/"

    def evaluate(self, expressions: str) -> str:
        return self.run("rabbitmqctl", "-q", "eval", f"{expressions.rstrip('.')}.")

    def answers(self) -> bool:
        # The engine listens on the port before the node does: only an answer counts.
        try:
            with socket.create_connection((self.host, self.port), timeout=5) as connection:
                connection.sendall(b"AMQP\x00\x00\x09\x01")
                return connection.recv(1) == b"\x01" and self.evaluate("rabbit:is_running()") == "true"
        except (OSError, ServerFailed):
            return False


class ContainerPostgres(_InContainer, PostgresCommands):
    """A PostgreSQL in a container."""

    def __init__(self, image: str = POSTGRES_IMAGE) -> None:
        container = PostgresContainer(image, username=_NAME, password=_NAME, dbname="postgres", driver=None)
        super().__init__(container, 5432)

    @property
    def url(self) -> str:
        """Its database `postgres`, as the owner of everything."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://{_NAME}:{_NAME}@{self.host}:{self.port}/{database}"

    def execute(self, statement: str) -> str:
        # By TCP: over the socket the server of the image's own initialisation answers too.
        address = f"postgresql://{_NAME}:{_NAME}@127.0.0.1/postgres"
        return self.run(
            "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", address, "-c", statement
        )

    def answers(self) -> bool:
        try:
            return self.execute("SELECT 1") == "1"
        except ServerFailed:
            return False


def check_engine() -> None:
    """ServerMissing where no Docker engine answers."""
    # The client leaves its socket open where it cannot connect: let it go here, not in the midst of a test.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        trouble = _trouble_with_engine()
        gc.collect()
    if trouble is not None:
        raise ServerMissing(f"expected a Docker engine, got {trouble}; start one or set DOCKER_HOST")


def _trouble_with_engine() -> str | None:
    try:
        docker.from_env(timeout=10).close()
    except DockerException as error:
        return str(error)
    return None


def _wait_until(fact: Callable[[], bool], what: str) -> None:
    deadline, pause = time.monotonic() + _READY_WITHIN, threading.Event()
    while not fact():
        if time.monotonic() > deadline:
            raise ServerFailed(f"expected {what} within {_READY_WITHIN:g} s, got none")
        pause.wait(0.2)
