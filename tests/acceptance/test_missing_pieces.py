"""A piece of the topology that is gone, or forbidden to one agent, ends no healthy job.

Other pieces are tried in virtual time (`tests/simulation/test_missing_pieces.py`); here RabbitMQ refuses.
"""

import asyncio
import json
import time
from collections.abc import Callable
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import aiormq
import pytest
from tests.acceptance.store_queries import agents_of, find_job
from tests.acceptance.warren import ServiceProcess, Warren, until
from tests.servers.kinds import RabbitMQServer

from warrener_client import SyncClient
from warrener_contracts import topology
from warrener_contracts.state_machine import JobState

PAST_THE_LEASE = 12.0
"""Seconds after the fault at which a healthy job has been lost before."""


@pytest.mark.parametrize("exchange", [topology.HEARTBEATS, topology.CONTROL])
def test_3_a_deleted_exchange_of_presence_is_declared_again_and_no_job_is_lost(
    warren: Warren, exchange: str
) -> None:
    start_all(warren, warren.broker_url)
    with SyncClient(warren.broker_url) as client:
        job = client.request("long")
        until((warren.folder / "runs").exists, "the job to run")
        asyncio.run(delete_exchange(warren, exchange))
        seen_after(warren, time.time() + PAST_THE_LEASE)
        (warren.folder / "go").touch()
        job.result(timeout=60)
    row, parked = find_job(warren, job.job_id)
    assert (row.state, row.attempt, row.losses) == (JobState.SUCCEEDED, 1, 0)
    assert not parked


@pytest.mark.parametrize("exchange", [topology.HEARTBEATS, topology.CONTROL])
def test_3_an_agent_that_may_not_write_its_heartbeats_ends_its_job_and_takes_no_other(
    warren: Warren, broker: RabbitMQServer, exchange: str
) -> None:
    url, permit = user_of(warren, broker)
    permit(".*")
    agent = start_all(warren, url)
    with SyncClient(warren.broker_url) as client:
        job = client.request("long")
        until((warren.folder / "runs").exists, "the job to run")
        permit(f"^(?!{exchange}$).*")
        broker.close_connections()  # a channel remembers what it may
        until(lambda: exchange in not_ready(agent), "readiness to name the exchange")
        waiting = client.request("quick")
        seen_after(warren, time.time() + PAST_THE_LEASE)
        (known,) = agents_of(warren)
        assert exchange in (known.trouble or ""), "doctor and explain name it"
        (warren.folder / "go").touch()
        job.result(timeout=60)
        assert find_job(warren, waiting.job_id)[0].state is JobState.QUEUED
        permit(".*")
        waiting.result(timeout=60)
    row, parked = find_job(warren, job.job_id)
    assert (row.state, row.attempt, row.losses) == (JobState.SUCCEEDED, 1, 0)
    assert not parked


async def delete_exchange(warren: Warren, exchange: str) -> None:
    """Delete an exchange, as a person may."""
    async with aiormq.connect(warren.broker_url) as connection:
        await (await connection.channel()).exchange_delete(exchange)


def start_all(warren: Warren, url_of_agent: str) -> ServiceProcess:
    """A scheduler, a supervisor and an agent with a user of its own."""
    warren.start("scheduler")
    warren.start("supervisor")
    agent = warren.start("agent", "tests.acceptance.presence_handlers", WARRENER_BROKER_URL=url_of_agent)
    warren.wait_ready()
    return agent


def user_of(warren: Warren, broker: RabbitMQServer) -> tuple[str, Callable[[str], None]]:
    """The URL of another user of the broker, and a function that sets the exchanges to which it may write."""
    parts = urlsplit(warren.broker_url)
    vhost = parts.path.removeprefix("/")
    name = f"agent-{vhost}"
    broker.evaluate(f'ok = rabbit_auth_backend_internal:add_user(<<"{name}">>, <<"secret">>, <<"test">>)')

    def permit(write: str) -> None:
        broker.evaluate(
            f'ok = rabbit_auth_backend_internal:set_permissions(<<"{name}">>, <<"{vhost}">>, <<".*">>, '
            f'<<"{write}">>, <<".*">>, <<"test">>)'
        )

    return f"amqp://{name}:secret@{parts.hostname}:{parts.port}/{vhost}", permit


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
