"""A broker with an alarm takes no message: `doctor` and `explain` name it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from warrener_devservers import PrivateRabbitMQ, ServerMissing

Run = Callable[..., Result]
_MEMORY = "vm_memory_monitor:set_vm_memory_high_watermark({}), ok."


@pytest.fixture(scope="module")
def node(server_folders: Callable[[str], Path]) -> Iterator[PrivateRabbitMQ]:
    """A node whose limits may be changed."""
    try:
        node = PrivateRabbitMQ(server_folders("alarms"))
    except ServerMissing as missing:
        pytest.skip(str(missing))
    node.start()
    yield node
    node.remove()


def test_an_alarm_is_named_with_what_to_do(run: Run, node: PrivateRabbitMQ, here: Path) -> None:
    where = ("--broker", node.add_vhost("alarm"), "--store", f"sqlite:///{here}/state.db")
    assert run("migrate", *where[2:]).exit_code == 0
    assert run("topology", "--declare", *where[:2]).exit_code == 0
    node.evaluate(_MEMORY.format("0.000001"))
    try:
        while True:  # the node looks at its memory every second
            found = {each["check"]: each for each in json.loads(run("doctor", *where, "--json").stdout)}
            if "broker alarm" in found:
                break
        assert "low on memory" in found["broker alarm"]["message"]
        assert "rabbitmq-diagnostics alarms" in found["broker alarm"]["do"]
        explained = json.loads(run("explain", "order-17", *where, "--json").stdout)
        assert explained["cause"] == "broker_blocked"
    finally:
        node.evaluate(_MEMORY.format("0.4"))
