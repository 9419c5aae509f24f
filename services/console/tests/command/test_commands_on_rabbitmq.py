"""Commands on a real broker, answered by a stand-in for the services."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from services.console.tests.conftest import Run
from tests.acceptance.warren import until
from tests.broker_access import count_messages, delete_queues, on_broker
from tests.stand_in import stand_in

from warrener_client.testing import StandIn
from warrener_contracts.topology import REQUESTS_QUEUE

UNKNOWN = "01936f2e-8a3b-7c4d-9e5f-0123456789ab"


def test_a_request_that_is_waited_for_prints_its_result_or_why_there_is_none(
    run: Run, vhost_url: str, warren: StandIn
) -> None:
    where = ("--broker", vhost_url)
    result = run("request", "hello.greet", "name=World", "times=3", "--wait", *where)
    assert (result.exit_code, result.stdout) == (0, '"Hello, World!"\n')
    assert "● succeeded" in result.stderr
    assert warren.requests[0].data.arguments == {"name": "World", "times": 3}
    assert warren.requests[0].source == "warrener.command"
    assert warren.requests[0].data.policy is None, "an empty no_retry_on would replace that of the type"
    result = run("request", "hello.greet", '{"name": "nobody"}', "--wait", "--json", *where)
    ended = json.loads(result.stdout)
    found = (result.exit_code, ended["state"], ended["error"]["message"])
    assert found == (4, "dead", "nobody is there")
    result = run("request", "no.such.type", *where)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "rejected (unknown_job_type)" in result.stderr
    assert run("request", "no.such.type", "--wait", *where).exit_code == 4


def test_without_any_service_the_broker_keeps_the_request(run: Run, vhost_url: str) -> None:
    first = run(
        "request", "hello.greet", "name=World", "--id", "greet-1", "--delay", "10m", "--broker", vhost_url
    )
    again = run("request", "hello.greet", "name=World", "--id", "greet-1", "--json", "--broker", vhost_url)
    assert (first.exit_code, again.exit_code) == (0, 0)
    assert str(UUID(first.stdout.strip())) == json.loads(again.stdout)["job_id"]
    # The count of a quorum queue comes a moment late.
    until(lambda: count_messages(vhost_url, REQUESTS_QUEUE.name) == [2], "both requests to wait")


def test_a_file_of_requests(run: Run, vhost_url: str, warren: StandIn, here: Path) -> None:
    lines = "\n".join(json.dumps({"name": f"number {n}"}) for n in range(20))
    (here / "names.jsonl").write_text(f"{lines}\n\n", encoding="utf-8")
    confirmed = run(
        "request", "hello.greet", "--from", "names.jsonl", "--id", "batch", "--json", "--broker", vhost_url
    )
    ids = [json.loads(line)["job_id"] for line in confirmed.stdout.splitlines()]
    assert len(set(ids)) == 20
    ended = run(
        "request", "hello.greet", "--from", "-", "--id", "batch", "--wait", "--broker", vhost_url, stdin=lines
    )
    result = [json.loads(line) for line in ended.stdout.splitlines()]
    assert {line["job_id"] for line in result} == set(ids)
    assert {line["state"] for line in result} == {"succeeded"}
    assert warren.requests


def test_a_bad_line_is_named_with_what_to_do_next(run: Run, vhost_url: str) -> None:
    result = run(
        "request", "hello.greet", "--from", "-", "--broker", vhost_url, stdin='{"name": "x"}\nnonsense\n'
    )
    assert result.exit_code == 2
    assert "expected line 2 as a JSON object, got 'nonsense'" in result.stderr
    assert "--id PREFIX" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        "escalation ack nothing",
        "escalation snooze nothing --for 1h",
        "escalation close nothing",
        f"dead-letters stop {UNKNOWN}",
        f"dead-letters resume {UNKNOWN}",
        f"dead-letters redrive {UNKNOWN}",
        f"dead-letters drop {UNKNOWN} --reason old --yes",
        f"cancel {UNKNOWN}",
        f"send {UNKNOWN} packed",
        "breaker open job:no.type",
        "schedule remove nothing",
    ],
)
def test_a_service_refuses_a_command_about_an_unknown_thing_and_the_command_shows_its_answer(
    run: Run, vhost_url: str, here: Path, words: str
) -> None:
    store = f"sqlite:///{here}/state.db"
    assert run("migrate", "--store", store).exit_code == 0
    with stand_in(vhost_url, refuse=lambda _: "expected another thing, got none") as services:
        result = run(*words.split(), "--broker", vhost_url, "--store", store)
        assert (result.exit_code, result.stderr) == (4, "✗ expected another thing, got none\n")
        assert len(services.commands) == 1


def test_topology_is_shown_made_and_compared(run: Run, vhost_url: str) -> None:
    assert "warrener.requests" in run("topology").stdout
    assert len(json.loads(run("topology", "--json").stdout)["queues"]) == 15

    missing = run("topology", "--check", "--json", "--broker", vhost_url)
    assert missing.exit_code == 1
    assert {each["how"] for each in json.loads(missing.stdout)} == {"is missing"}

    assert run("topology", "apply", "--broker", vhost_url).exit_code == 0
    assert run("topology", "--check", "--broker", vhost_url).exit_code == 0

    delete_queues(vhost_url, REQUESTS_QUEUE.name)
    arguments: Any = {**REQUESTS_QUEUE.arguments, "x-max-length": 5}
    on_broker(
        vhost_url,
        lambda channel: channel.queue_declare(REQUESTS_QUEUE.name, durable=True, arguments=arguments),
    )
    other = run("topology", "--check", "--broker", vhost_url)
    assert other.exit_code == 1
    assert "x-max-length" in other.stdout
    assert "delete it" in other.stderr


def test_the_doctor_shows_what_is_wrong_and_what_to_do(run: Run, vhost_url: str, store_url: str) -> None:
    run("topology", "apply", "--broker", vhost_url)
    result = run("doctor", "--json", "--broker", vhost_url, "--store", store_url)
    assert result.exit_code == 1
    found = {each["check"]: each for each in json.loads(result.stdout)}
    assert {name for name, each in found.items() if each["status"] == "error"} == {
        "scheduler",
        "scheduler commands",
        "supervisor",
        "supervisor commands",
        "agents",
    }
    assert found["scheduler"]["do"] == "start one: `warrener scheduler`"
    assert {name for name, each in found.items() if each["status"] == "ok"} == {
        "broker",
        "topology",
        "permissions",
        "broker clock",
        "delay levels",
        "store",
        "store writes",
        "clocks",
        "limits",
        "users",
    }


def test_the_doctor_at_a_place_where_nothing_is(run: Run) -> None:
    result = run("doctor", "--broker", "amqp://localhost:1/", "--store", "sqlite:///nothing.db")
    assert result.exit_code == 1
    assert "✗ broker" in result.stdout
    assert "run `warrener migrate`" in result.stdout
