"""`warrener explain` beside a Warrener of which something is down, frozen, locked or deleted.

The tests share one system, and each leaves it as it found it."""

import asyncio
import json
import shutil
import signal
import sqlite3
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from tests.acceptance.command_line import call_command
from tests.acceptance.event_tap import EventTap
from tests.acceptance.fork_server import ForkServers
from tests.acceptance.gate import make_gate, open_gate
from tests.acceptance.store_queries import agents_of, job_types_of, rows_of
from tests.acceptance.warren import ServiceProcess, Warren, locked, until

from warrener.explanations.causes import Cause
from warrener_client import SyncClient
from warrener_contracts.events import AttemptDispatched, SchedulePutData
from warrener_contracts.schedule_rules import IntervalRule
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import DISPATCH, RETURN, dispatch_queue
from warrener_devservers import PrivateRabbitMQ, ServerMissing

MODULE = "tests.acceptance.explain_handlers"
AN_HOUR_LATER = """
UPDATE warrener_jobs
SET due_at = '2020-01-01T00:00:00.000000Z', wake_at = '2020-01-01T00:00:00.000000Z'
WHERE job_id = ? AND state = 'waiting'
"""
"""For the store, the delay of a job is over: it need not be timed to end while the scheduler is frozen."""
PATIENT = {"WARRENER_SUPERVISOR_AGENT_TIMEOUT": "60"}
"""A supervisor that does not take a silent agent for lost while the test looks."""


class Ward:
    """A warren of which services end and come back."""

    def __init__(self, warren: Warren, node: PrivateRabbitMQ) -> None:
        self.warren, self.node = warren, node
        self.scheduler, self.supervisor = warren.start("scheduler"), warren.start("supervisor", **PATIENT)
        self.agent = self.start_agent()

    def start_agent(self, *words: str) -> ServiceProcess:
        """Start an agent, and wait until its heartbeats arrive."""
        known = {(agent.agent_id, agent.started_at) for agent in agents_of(self.warren)}
        one = self.warren.start("agent", f"{MODULE}:agent", *words)
        self.warren.wait_ready()
        until(
            lambda: {(agent.agent_id, agent.started_at) for agent in agents_of(self.warren)} - known,
            "its heartbeats",
        )
        until(lambda: "quick" in job_types_of(self.warren), "its job types")
        return one

    def request(self, job_type: str, arguments: dict[str, Any] | None = None, **options: Any) -> str:
        """Request a job; its id."""
        with SyncClient(self.warren.broker_url) as client:
            return str(client.request(job_type, arguments or {}, **options).job_id)

    def accepted(self, job_id: str, *states: JobState) -> str:
        """Wait until the job is in the store, in one of these states if any are given."""

        def is_there() -> bool:
            row = rows_of(self.warren, [UUID(job_id)]).get(UUID(job_id))
            return row is not None and (not states or row.state in set(states))

        until(is_there, f"job {job_id} to be in the store")
        return job_id

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

    @contextmanager
    def frozen(self, service: ServiceProcess) -> Generator[None]:
        """While the process is stopped."""
        with locked(self.warren.folder / "state.db"):
            service.freeze()
        try:
            yield
        finally:
            service.signal(signal.SIGCONT)

    def on_broker(self, do: Callable[[AbstractChannel], Awaitable[Any]]) -> None:
        """Do something on a channel of its own."""

        async def once() -> None:
            async with await aio_pika.connect(self.warren.broker_url) as connection:
                await do(await connection.channel())

        asyncio.run(once())


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
def ward(
    node: PrivateRabbitMQ,
    forks: ForkServers,
    sqlite_template: Path,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Ward]:
    folder = tmp_path_factory.mktemp("ward")
    store = f"sqlite:///{shutil.copy(sqlite_template, folder / 'state.db')}"
    url = node.add_vhost(f"v-{uuid4().hex[:12]}")
    warren = Warren(folder, url, store, f"sqlite:///{folder}/ledger.db", forks=forks)
    yield Ward(warren, node)
    warren.end()
    if request.session.testsfailed:
        for service in warren.services:
            print(f"--- {service.name}\n{service.log_text()[-3000:]}")


# -- the surroundings --------------------------------------------------------------------------------------


def test_the_broker_is_frozen(ward: Ward) -> None:
    job_id = ward.accepted(ward.request("works"), JobState.RUNNING)
    ward.node.pause()
    try:
        assert "the broker does not answer" in ward.explained(job_id, Cause.BROKER_UNREACHABLE)
    finally:
        ward.node.resume()


def test_the_store_cannot_be_written(ward: Ward) -> None:
    job_id = ward.accepted(ward.request("quick", delay="1h"))
    with locked(ward.warren.folder / "state.db"):
        assert "the store takes no writes" in ward.explained(job_id, Cause.STORE_NOT_WRITABLE)
        ward.explained("order-1", Cause.STORE_NOT_WRITABLE)


def test_the_store_does_not_answer(ward: Ward) -> None:
    ended = call_command(
        ward.warren, "explain", "order-1", "--json", "--store", "postgresql://127.0.0.1:1/none"
    )
    assert ended.returncode == 3
    assert json.loads(ended.stdout)["cause"] == Cause.STORE_UNREACHABLE


def test_a_binding_was_removed(ward: Ward) -> None:
    queue = dispatch_queue("default")
    key = next(each.key for each in queue.bindings if each.exchange == RETURN)

    async def unbind(channel: AbstractChannel) -> None:
        await (await channel.get_queue(queue.name)).unbind(RETURN, key)

    async def bind(channel: AbstractChannel) -> None:
        await (await channel.get_queue(queue.name)).bind(RETURN, key)

    ward.on_broker(unbind)
    try:
        assert f"is not bound to {RETURN}" in ward.explained("queue:default", Cause.BINDING_MISSING)
    finally:
        ward.on_broker(bind)
    ward.explained("queue:default", Cause.QUEUE_WORKS)


# -- the scheduler -----------------------------------------------------------------------------------------


def test_the_scheduler_is_frozen_and_then_gone(ward: Ward) -> None:
    job_id = ward.accepted(ward.request("quick", delay="1h"), JobState.WAITING)
    with SyncClient(ward.warren.broker_url) as client:
        rule = IntervalRule(every=timedelta(hours=1))
        client.put_schedules([SchedulePutData(name="hourly", rule=rule, job_type="quick")])
    ward.explained("hourly", Cause.NEXT_TICK)
    with ward.frozen(ward.scheduler):
        with closing(sqlite3.connect(ward.warren.folder / "state.db", timeout=30)) as store, store:
            store.execute(AN_HOUR_LATER, (job_id,))
        assert "no scheduler has dispatched it" in ward.explained(job_id, Cause.SCHEDULER_LATE)
        ward.scheduler.kill()
        assert "no scheduler runs" in ward.explained(job_id, Cause.SCHEDULER_DOWN)
    ward.request("quick", id="order-2")
    assert "no scheduler runs" in ward.explained("order-2", Cause.SCHEDULER_DOWN)
    ward.explained("hourly", Cause.SCHEDULER_DOWN)
    ward.scheduler = ward.warren.start("scheduler")
    ward.explained("order-2", Cause.SUCCEEDED)
    ward.explained(job_id, Cause.SUCCEEDED)


# -- agents ------------------------------------------------------------------------------------------------


def test_the_ledger_is_locked(ward: Ward) -> None:
    with locked(ward.warren.folder / "ledger.db-claims"):
        job_id = ward.accepted(ward.request("quick"))
        assert "can claim attempts" in ward.explained(job_id, Cause.LEDGER_UNREACHABLE)
    ward.explained(job_id, Cause.SUCCEEDED)


def test_the_agent_is_frozen(ward: Ward) -> None:
    with ward.frozen(ward.agent):
        job_id = ward.accepted(ward.request("quick"))
        assert "sends no heartbeat" in ward.explained(job_id, Cause.AGENT_STALLED)
    ward.explained(job_id, Cause.SUCCEEDED)


def test_the_agent_drains_and_is_gone(ward: Ward) -> None:
    gate = ward.warren.folder / "gate"
    make_gate(gate)
    ward.accepted(ward.request("gated", {"gate": str(gate)}), JobState.RUNNING)
    ward.agent.signal(signal.SIGTERM)
    job_id = ward.accepted(ward.request("quick"))
    assert "are draining" in ward.explained(job_id, Cause.AGENTS_DRAINING)
    open_gate(gate)
    assert ward.agent.wait_ended() == 0
    assert "is alive" in ward.explained(job_id, Cause.AGENT_GONE)
    ward.agent = ward.start_agent()
    ward.explained(job_id, Cause.SUCCEEDED)


def test_the_agent_that_runs_a_job_is_killed(ward: Ward) -> None:
    job_id = ward.accepted(ward.request("works"), JobState.RUNNING)
    ward.agent.kill()
    other = ward.accepted(ward.request("quick"))
    assert "its agent" in ward.explained(job_id, Cause.AGENT_LOST)
    ward.explained(other, Cause.AGENT_GONE)
    ward.explained("queue:default", Cause.AGENT_GONE)
    ward.agent = ward.start_agent()
    ward.explained(other, Cause.SUCCEEDED)


# -- the supervisor ----------------------------------------------------------------------------------------


def test_the_supervisor_is_gone(ward: Ward) -> None:
    ward.supervisor.kill()
    running = ward.accepted(ward.request("quick"))
    assert "no supervisor runs" in ward.explained(running, Cause.SUPERVISOR_DOWN)
    ward.supervisor = ward.warren.start("supervisor", **PATIENT)
    ward.explained(running, Cause.SUCCEEDED)


def test_the_supervisor_is_frozen(ward: Ward) -> None:
    second = ward.start_agent("--queue", "other")
    with ward.frozen(ward.supervisor):
        job_id = ward.accepted(ward.request("quick"))
        assert "no supervisor stores heartbeats" in ward.explained(job_id, Cause.SUPERVISOR_STALLED)
    ward.explained(job_id, Cause.SUCCEEDED)
    second.end()


def test_the_queue_was_deleted(ward: Ward) -> None:
    ward.agent.kill()
    dispatches = EventTap(ward.warren.broker_url, DISPATCH)
    first = ward.accepted(ward.request("quick"))
    ward.supervisor.kill()
    job_id = ward.accepted(ward.request("quick"))

    def dispatched() -> bool:
        return {str(event.data.job_id) for event in dispatches.received(AttemptDispatched)} >= {first, job_id}

    until(dispatched, "both to be dispatched: a scheduler that finds no queue declares it")

    async def delete(channel: AbstractChannel) -> None:
        await channel.queue_delete(dispatch_queue("default").name)

    ward.on_broker(delete)
    assert "does not exist" in ward.explained(job_id, Cause.QUEUE_MISSING)
    ward.supervisor = ward.warren.start("supervisor", **PATIENT)
    ward.agent = ward.start_agent()
    ward.explained(job_id, Cause.SUCCEEDED)
