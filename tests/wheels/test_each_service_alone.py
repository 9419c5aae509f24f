"""Each service installs and starts alone from its own wheel, waits for its broker, and ends in order."""

import asyncio
import os
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.acceptance.warren import ServiceProcess, until
from tests.conventions.packages import BUDGETS

from warrener_devservers import PrivateRabbitMQ, ServerMissing
from warrener_devservers.process import free_block
from warrener_store import migrate


class Alone(ServiceProcess):
    """One service's process, with its output in a file."""

    def __init__(self, command: list[str], folder: Path, health_port: int, **settings: str) -> None:
        log = folder / "service.log"
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": str(folder),  # for the handlers; the service's own code is in its environment
            "WARRENER_HEALTH_PORT": str(health_port),
            **settings,
        }
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        super().__init__(Path(command[0]).name, process, health_port, log)

    def metrics_text(self) -> str:
        """Its metrics, for Prometheus."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())


HANDLERS = """
from warrener_agent import Agent

agent = Agent()

@agent.job("greet")
async def greet(name: str) -> str:
    return f"Hello, {name}!"
"""

NewEnvironment = Callable[[str], Path]


@pytest.fixture(scope="module")
def absent_broker(server_folders: Callable[[str], Path]) -> PrivateRabbitMQ:
    """A node that has not been started, but has its port already."""
    try:
        return PrivateRabbitMQ(server_folders("late-rabbitmq"))
    except ServerMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize(
    ("member", "arguments"),
    [("warrener-scheduler", ()), ("warrener-supervisor", ()), ("warrener-agent", ("greeting",))],
)
def test_a_service_waits_for_its_broker(
    member: str,
    arguments: tuple[str, ...],
    environment_with: NewEnvironment,
    absent_broker: PrivateRabbitMQ,
    tmp_path: Path,
) -> None:
    programs = environment_with(member)
    assert set(packages_in(programs)) & SERVICES == {member}, "no other service came along"
    assert len(strangers_in(programs)) <= BUDGETS[member]
    (tmp_path / "greeting.py").write_text(HANDLERS, encoding="utf-8")
    store = f"sqlite:///{tmp_path}/state.db"
    asyncio.run(migrate(store))

    service = Alone(
        [str(programs / member), *arguments],
        tmp_path,
        free_block((0,)),
        WARRENER_BROKER_URL=absent_broker.url,
        WARRENER_NAMESPACE=member.removeprefix("warrener-"),  # each has a store of its own
        WARRENER_STORE_URL=store,
        WARRENER_LEDGER_URL=f"sqlite:///{tmp_path}/ledger.db",
    )
    try:
        until(lambda: "cannot be reached" in service.log_text(), "a clear line about the broker")
        assert f"127.0.0.1:{absent_broker.port}" in service.log_text()
        assert not service.ready()
        assert service.process.poll() is None
        absent_broker.start()
        until(service.ready, "it to be ready once the broker has come")
        assert f'service_name="{member}"' in service.metrics_text()
        assert service.end() == 0, service.log_text()
    finally:
        service.kill()
        absent_broker.kill()


def test_the_command_installs_without_the_services(environment_with: NewEnvironment) -> None:
    programs = environment_with("warrener")
    shown = subprocess.run([programs / "warrener", "--help"], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "request" in shown.stdout
    assert not set(packages_in(programs)) & SERVICES


@pytest.mark.parametrize("member", ["warrener-contracts", "warrener-calendar", "warrener-client"])
def test_a_library_imports_alone(member: str, environment_with: NewEnvironment) -> None:
    programs = environment_with(member)
    module = member.replace("-", "_")
    done = subprocess.run(
        [programs / "python", "-c", f"import {module}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not set(packages_in(programs)) & SERVICES
    assert len(strangers_in(programs)) <= BUDGETS[member]


SERVICES = {"warrener-scheduler", "warrener-supervisor", "warrener-agent"}


def strangers_in(programs: Path) -> list[str]:
    """The packages of others that an environment has."""
    return [name for name in packages_in(programs) if not name.startswith("warrener")]


def packages_in(programs: Path) -> list[str]:
    """All packages of an environment."""
    listed = (
        "from importlib.metadata import distributions; print(*(d.metadata['Name'] for d in distributions()))"
    )
    names = subprocess.run([programs / "python", "-c", listed], capture_output=True, text=True, check=True)
    return names.stdout.split()
