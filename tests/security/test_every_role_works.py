"""A whole system in which each part has a user of its own with its role and nothing more.

Two agents, a job that dies and is redriven, a workflow over both, a cancel, a schedule, an observer, and the
console. Nobody but the topology admin declares what lasts, and ties the namespace to the store.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from services.console.tests.web.conftest import browser_on, open_console
from tests.acceptance.command_line import run_command
from tests.acceptance.store_queries import state_of, tick_history
from tests.acceptance.warren import Warren, until
from tests.broker_access import channel_on
from tests.faults.broker_users import BrokerUser
from tests.security.test_store_roles import StoreUsers
from tests.servers.kinds import RabbitMQServer

from warrener_client import JobCancelled, JobDied, SyncClient
from warrener_contracts.permissions import BrokerRole, Holder
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import observer_queue

MakeUser = Callable[..., BrokerUser]
MODULE = "tests.security.role_handlers"


@pytest.fixture
def user(broker: RabbitMQServer, vhost_url: str) -> Iterator[MakeUser]:
    """Makes users of the broker, by role."""
    made: list[BrokerUser] = []

    def make(role: BrokerRole, **options: Any) -> BrokerUser:
        made.append(BrokerUser(broker, vhost_url))
        made[-1].hold(Holder(role, made[-1].name, **options))
        return made[-1]

    yield make
    for one in made:
        one.remove()


async def test_every_role_works_with_its_own_user_and_nothing_more(
    user: MakeUser, warren: Warren, postgres_store_url: str
) -> None:
    store, warren.store_url = StoreUsers(postgres_store_url), postgres_store_url
    admin = user(BrokerRole.TOPOLOGY_ADMIN)
    apply = ("topology", "apply", "--queue", "etl", "--queue", "reports", "--store", postgres_store_url)
    run_command(warren, *apply, WARRENER_BROKER_URL=admin.url)

    for role in (BrokerRole.SCHEDULER, BrokerRole.SUPERVISOR):
        urls = {"WARRENER_BROKER_URL": user(role).url, "WARRENER_STORE_URL": await store.make(role.value)}
        warren.start(role.value, WARRENER_DECLARE="never", **urls)
    loads = user(BrokerRole.AGENT, queues=("etl",), job_types=("flights.*",))
    may_run, may_request = ("reports.*",), ("flights.*",)
    reports = user(BrokerRole.AGENT, queues=("reports",), job_types=may_run, child_types=may_request)
    for name, one in (("loads", loads), ("reports", reports)):
        warren.start("agent", f"{MODULE}:{name}", WARRENER_BROKER_URL=one.url, WARRENER_DECLARE="never")
    warren.wait_ready()
    observer = user(BrokerRole.OBSERVER)
    queue = observer_queue(observer.name, "all")
    async with channel_on(observer.url) as channel:
        await channel.queue_declare(queue, exclusive=True)
        await channel.queue_bind(queue, "warrener.events", "job.#")
        await asyncio.to_thread(work, warren, user, await store.make("console"))
        seen = await channel.queue_declare(queue, passive=True)
        assert seen.message_count
    console = user(BrokerRole.CONSOLE)
    async with (
        open_console(await store.make("console"), console.url) as opened,
        browser_on(opened) as browser,
    ):
        assert "reports.daily" in (await browser.get("/jobs")).text
        assert (await browser.get("/schedules")).status_code == 200


def work(warren: Warren, user: MakeUser, store_url: str) -> None:
    """An asker requests; an operator commands."""
    asker = user(BrokerRole.ASKER, job_types=("flights.*", "reports.*"))
    operator = user(BrokerRole.OPERATOR, job_types=("*",))
    commands: dict[str, Any] = {"WARRENER_BROKER_URL": operator.url, "WARRENER_STORE_URL": store_url}
    with SyncClient(asker.url, declare="never") as client:
        died = client.request("flights.load", {"number": 1}, queue="etl")
        with pytest.raises(JobDied):
            died.result(timeout=60)
        (warren.folder / "mended").touch()
        run_command(warren, "dead-letters", "redrive", str(died.job_id), **commands)
        assert client.request("flights.load", {"number": 2}, queue="etl").result(timeout=60) == 2
        assert client.request("reports.daily", {"number": 3}, queue="reports").result(timeout=60) == 4
        waits = client.request("flights.wait", queue="etl")
        until((warren.folder / "waiting").exists, "the job to wait")
        run_command(warren, "cancel", str(waits.job_id), **commands)
        with pytest.raises(JobCancelled):
            waits.result(timeout=60)
    put = ("schedule", "put", "flights.often", "flights.load", "number=7", "--every", "1s")
    run_command(warren, *put, **commands)
    until(lambda: tick_succeeded(warren, "flights.often"), "a job of the schedule to succeed")


def tick_succeeded(warren: Warren, schedule: str) -> bool:
    jobs = [tick.job_id for tick in tick_history(warren, schedule) if tick.job_id is not None]
    return any(state_of(warren, job_id) is JobState.SUCCEEDED for job_id in jobs)
