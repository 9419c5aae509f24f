"""A broker with an alarm takes no message: `doctor` and `explain` name it."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.faults.broker_alarms import low_on_memory
from tests.servers.kinds import RabbitMQServer
from typer.testing import Result

Run = Callable[..., Result]


def test_an_alarm_is_named_with_what_to_do(run: Run, own_rabbitmq: RabbitMQServer, here: Path) -> None:
    where = ("--broker", own_rabbitmq.url, "--store", f"sqlite:///{here}/state.db")
    assert run("migrate", *where[2:]).exit_code == 0
    assert run("topology", "--declare", *where[:2]).exit_code == 0
    with low_on_memory(own_rabbitmq):
        while True:  # the node looks at its memory every second
            found = {each["check"]: each for each in json.loads(run("doctor", *where, "--json").stdout)}
            if "broker alarm" in found:
                break
        assert "low on memory" in found["broker alarm"]["message"]
        assert "rabbitmq-diagnostics alarms" in found["broker alarm"]["do"]
        explained = json.loads(run("explain", "order-17", *where, "--json").stdout)
        assert explained["cause"] == "broker_blocked"
