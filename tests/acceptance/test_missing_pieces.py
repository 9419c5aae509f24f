"""A piece of the topology that is gone, or forbidden to one agent, ends no healthy job.

Deleted pieces and the heartbeats of `warrener.control` are tried in virtual time
(`tests/simulation/test_missing_pieces.py`); here RabbitMQ refuses.
"""

import json
import time
from functools import partial
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from tests.acceptance.command_line import call_command
from tests.acceptance.store_queries import agents_of, find_job
from tests.acceptance.warren import ServiceProcess, Warren, until
from tests.faults.broker_users import BrokerUser
from tests.servers.kinds import RabbitMQServer

from warrener.explanations.causes import Cause
from warrener_client import SyncClient
from warrener_contracts import topology
from warrener_contracts.state_machine import JobState

PAST_THE_LEASE = 12.0
"""Seconds after the fault at which a healthy job has been lost before."""


def test_3_an_agent_that_may_not_write_its_heartbeats_ends_its_job_and_takes_no_other(
    warren: Warren, broker: RabbitMQServer
) -> None:
    exchange = topology.HEARTBEATS
    user = BrokerUser(broker, warren.broker_url)
    agent = start_all(warren, agent=user.url)
    with SyncClient(warren.broker_url) as client:
        job = client.request("long")
        until((warren.folder / "runs").exists, "the job to run")
        user.permit(write=f"^(?!{exchange}$).*")
        broker.close_connections()  # a channel remembers what it may
        unproved = f"expected exchange {exchange} to carry the heartbeats"
        until(lambda: unproved in not_ready(agent), "readiness to name the exchange")
        waiting = client.request("quick")
        seen_after(warren, time.time() + PAST_THE_LEASE)
        (known,) = agents_of(warren)
        assert exchange in (known.trouble or ""), "doctor and explain name it"
        (warren.folder / "go").touch()
        job.result(timeout=60)
        assert find_job(warren, waiting.job_id)[0].state is JobState.QUEUED
        user.permit()
        waiting.result(timeout=60)
    row, parked = find_job(warren, job.job_id)
    assert (row.state, row.attempt, row.losses) == (JobState.SUCCEEDED, 1, 0)
    assert not parked


def test_9_services_that_start_without_the_permission_to_declare_wait_for_it(
    warren: Warren, broker: RabbitMQServer
) -> None:
    user = BrokerUser(broker, warren.broker_url)
    user.permit(configure="^$")
    warren.environment = {"WARRENER_BROKER_URL": user.url}
    warren.start("scheduler")
    warren.start("supervisor")
    warren.start("agent", "tests.acceptance.presence_handlers")
    for service in warren.services:
        until(partial(_names_the_permission, service), "readiness to name it")
        assert service.records("topology.forbidden"), service.log_text()
    user.permit()
    warren.wait_ready()
    with SyncClient(warren.broker_url) as client:
        assert client.request("quick").result(timeout=60) == "done"


def test_9_a_supervisor_starts_beside_a_piece_that_it_may_not_declare(
    warren: Warren, broker: RabbitMQServer
) -> None:
    user = BrokerUser(broker, warren.broker_url)
    user.permit(configure=f"^(?!{topology.TRIGGERS_QUEUE.name}$).*")
    supervisor = warren.start("supervisor", WARRENER_BROKER_URL=user.url)
    until(supervisor.ready, "the supervisor to work with all other pieces")
    (refused,) = supervisor.records("topology.refused")
    assert refused["piece"] == f"queue {topology.TRIGGERS_QUEUE.name}"
    warren.start("scheduler")
    warren.start("agent", "tests.acceptance.presence_handlers")
    warren.wait_ready()
    with SyncClient(warren.broker_url) as client:
        assert client.request("quick").result(timeout=60) == "done"


def _names_the_permission(service: ServiceProcess) -> bool:
    return "run `rabbitmqctl set_permissions -p" in not_ready(service)


@pytest.mark.parametrize(
    ("service", "right", "piece"),
    [("scheduler", "read", "queue warrener.requests"), ("agent", "write", "exchange warrener.status")],
)
def test_9_a_permission_that_a_service_lacks_is_named_with_the_command_that_grants_it(
    warren: Warren, broker: RabbitMQServer, service: str, right: str, piece: str
) -> None:
    user = BrokerUser(broker, warren.broker_url)
    start_all(warren, **{service: user.url})
    (refused,) = [one for one in warren.services if one.name == service]
    user.permit(**{right: f"^(?!{piece.split()[1]}$).*"})
    broker.close_connections()  # a channel remembers what it may
    named = f"the permission to {right} {piece} for user {user.name}"
    command = f"rabbitmqctl set_permissions -p {user.vhost} {user.name} "
    with SyncClient(warren.broker_url) as client:
        # An attempt that runs on is in heartbeats; the outcome of one that ended cannot be reported.
        job = client.request("long" if right == "write" else "quick")
        until(lambda: named in not_ready(refused) and command in not_ready(refused), "readiness to name it")

        def found() -> Any:
            checks = json.loads(call_command(warren, "doctor", "--json").stdout)
            return [one for one in checks if named in one["message"]]

        cause = Cause.RUNNING if right == "write" else Cause.PERMISSION_REFUSED

        def explained() -> Any:
            answer = json.loads(call_command(warren, "explain", str(job.job_id), "--json").stdout)
            return answer if named in str(answer) and answer["cause"] == cause else None

        assert command in str(until(found, "doctor to name it"))
        answer = until(explained, "explain to name it")
        assert command in str(answer)
        user.permit()
        (warren.folder / "go").touch()
        assert job.result(timeout=90) == (1 if right == "write" else "done")


def start_all(warren: Warren, **urls: str) -> ServiceProcess:
    """A scheduler, a supervisor and an agent; each with a user of its own if `urls` has one. The agent."""
    for service in ("scheduler", "supervisor", "agent"):
        words = ("tests.acceptance.presence_handlers",) if service == "agent" else ()
        last = warren.start(service, *words, WARRENER_BROKER_URL=urls.get(service, warren.broker_url))
    warren.wait_ready()
    return last


def seen_after(warren: Warren, moment: float) -> None:
    """Until a supervisor has stored a heartbeat of the agent that came after this moment."""
    until(
        lambda: any(agent.last_seen_at.timestamp() > moment for agent in agents_of(warren)),
        "a later heartbeat of the agent",
    )


def not_ready(service: ServiceProcess) -> str:
    """What its readiness says is wrong."""
    try:
        with urlopen(f"http://127.0.0.1:{service.health_port}/ready", timeout=5) as answer:
            return str(json.load(answer)["checks"]) if answer.status != 200 else ""
    except HTTPError as error:
        return error.read().decode()
    except OSError:
        return ""
