"""`warrener explain` beside real services whose broker, store or ledger is frozen, locked or damaged.

Each other cause is brought about in virtual time, by `tests/simulation/test_explain.py`."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.acceptance.command_line import call_command, run_command
from tests.acceptance.conftest import NewWarren
from tests.acceptance.store_queries import agents_of, job_types_of, rows_of
from tests.acceptance.warren import Warren, locked, until
from tests.broker_access import on_broker

from warrener.explanations.causes import Cause
from warrener_client import SyncClient
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import RETURN, dispatch_queue
from warrener_devservers import PrivateRabbitMQ, ServerMissing

HANDLERS = """
import asyncio
from warrener_agent import Agent

agent = Agent()

@agent.job("quick")
async def quick() -> int:
    return 1

@agent.job("works")
async def works() -> None:
    await asyncio.Event().wait()
"""


class Ward:
    """A warren at work, on a broker of its own."""

    def __init__(self, warren: Warren, node: PrivateRabbitMQ) -> None:
        self.warren, self.node = warren, node

    def request(self, job_type: str, *states: JobState, **options: Any) -> str:
        """Request a job and wait until it is stored, in one of these states if any are given; its id."""
        with SyncClient(self.warren.broker_url) as client:
            job = client.request(job_type, **options)

        def is_there() -> bool:
            row = rows_of(self.warren, [job.job_id]).get(job.job_id)
            return row is not None and (not states or row.state in states)

        until(is_there, f"job {job.job_id} to be in the store")
        return str(job.job_id)

    def explained(self, subject: str, cause: Cause) -> str:
        """Wait until the subject is explained by this cause; its sentence."""
        seen: list[dict[str, Any]] = []

        def is_it() -> bool:
            ended = call_command(
                self.warren, "explain", subject, "--json", WARRENER_MANAGEMENT_URL=self.node.management_url
            )
            assert ended.stdout, ended.stderr
            seen.append(json.loads(ended.stdout))
            return bool(seen[-1]["cause"] == cause)

        try:
            until(is_it, f"{subject} to be explained as {cause}")
        except AssertionError:
            pytest.fail(f"expected {cause}, got {json.dumps(seen[-1:], indent=1)}")
        return str(seen[-1]["sentence"])


@pytest.fixture(scope="module")
def node(server_folders: Callable[[str], Path]) -> Iterator[PrivateRabbitMQ]:
    """A broker with the management plugin, which may be paused."""
    try:
        node = PrivateRabbitMQ(server_folders("explained"), plugins=["rabbitmq_management"])
    except ServerMissing as missing:
        pytest.skip(str(missing))
    node.start()
    yield node
    node.remove()


@pytest.fixture(scope="module")
def ward(node: PrivateRabbitMQ, new_warren: NewWarren) -> Ward:
    warren = new_warren(node.add_vhost(f"v-{uuid4().hex[:12]}"))
    (warren.folder / "explained.py").write_text(HANDLERS)
    warren.environment = {"WARRENER_SCHEDULER_QUEUES": "nobody"}  # they have asked for it
    warren.start_all("explained")
    until(lambda: agents_of(warren) and job_types_of(warren), "the agent's heartbeat and its job types")
    return Ward(warren, node)


def test_the_broker_is_frozen(ward: Ward) -> None:
    job_id = ward.request("works", JobState.RUNNING)
    ward.node.pause()
    try:
        ward.explained(job_id, Cause.BROKER_UNREACHABLE)
    finally:
        ward.node.resume()
    with SyncClient(ward.warren.broker_url) as client:
        client.cancel(UUID(job_id))  # or else its agent drains for as long as it may
    ward.explained(job_id, Cause.CANCELLED)


def test_the_store_cannot_be_written(ward: Ward) -> None:
    job_id = ward.request("quick", delay="1h")
    with locked(ward.warren.folder / "state.db"):
        ward.explained(job_id, Cause.STORE_NOT_WRITABLE)


def test_a_binding_was_removed(ward: Ward) -> None:
    queue = dispatch_queue("default")
    key = next(each.key for each in queue.bindings if each.exchange == RETURN)
    url = ward.warren.broker_url
    on_broker(url, lambda channel: channel.queue_unbind(queue.name, RETURN, key))
    try:
        assert RETURN in ward.explained("queue:default", Cause.BINDING_MISSING)
    finally:
        on_broker(url, lambda channel: channel.queue_bind(queue.name, RETURN, key))
    ward.explained("queue:default", Cause.QUEUE_WORKS)


def test_the_ledger_is_locked(ward: Ward) -> None:
    with locked(ward.warren.folder / "ledger.db-claims"):
        job_id = ward.request("quick")
        ward.explained(job_id, Cause.LEDGER_UNREACHABLE)
    ward.explained(job_id, Cause.SUCCEEDED)


def test_the_job_page_and_the_doctor_agree_and_people_see_the_cause_first(ward: Ward) -> None:
    job_id = ward.request("quick", queue="nobody")
    sentence = ward.explained(job_id, Cause.WRONG_QUEUE)
    page = json.loads(run_command(ward.warren, "job", job_id, "--json"))
    assert page["explanation"]["sentence"] == sentence
    assert sentence in run_command(ward.warren, "job", job_id)
    ended = call_command(ward.warren, "doctor", "--json")
    results = {each["check"]: each for each in json.loads(ended.stdout)}
    assert ended.returncode == 1
    assert results["queue nobody"]["message"].startswith("No agent has ever served queue nobody")
    assert results["store writes"]["status"] == "ok"
    lines = run_command(ward.warren, "explain", job_id).splitlines()
    assert lines[0].startswith(f"job {job_id}")
    assert sentence[:40] in lines[1]
    assert any(line.startswith("✓  request") for line in lines)
