"""Two systems on one broker: apart by their namespaces, and kept apart where they have the same one."""

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from aiormq.abc import DeliveredMessage
from tests.acceptance.command_line import run_command, run_json
from tests.acceptance.store_queries import rows_of
from tests.acceptance.warren import Warren
from tests.broker_access import channel_on

from warrener.context import ResolvedEndpoints
from warrener.doctor.inspector import BrokerInspector, QueueInfo
from warrener.installation import adopt
from warrener_client import SyncClient
from warrener_contracts.topology import REQUESTS_QUEUE
from warrener_store import migrate

MODULE = "tests.acceptance.many_handlers"
SETTINGS = 2  # the exit code of a service whose settings cannot be used
SHOP = {"WARRENER_NAMESPACE": "shop-2"}


@pytest.fixture
def shop(warren: Warren, tmp_path: Path) -> Warren:
    """A second system on the same broker, with a store and a ledger of its own. It has the namespace of the
    first one as long as nobody gives it another."""
    folder = tmp_path / "shop"
    folder.mkdir()
    store = f"sqlite:///{folder}/state.db"
    asyncio.run(migrate(store))
    ledger = f"sqlite:///{folder}/ledger.db"
    return replace(warren, folder=folder, store_url=store, ledger_url=ledger, environment={}, services=[])


def test_two_systems_with_namespaces_of_their_own_share_a_broker(warren: Warren, shop: Warren) -> None:
    shop.environment = SHOP
    try:
        warren.start_all(MODULE)
        shop.start_all(MODULE)
        with SyncClient(warren.broker_url) as here, SyncClient(shop.broker_url, namespace="shop-2") as there:
            ours, theirs = [[one.request("many") for _ in range(20)] for one in (here, there)]
            assert [job.result(timeout=60) for job in (*ours, *theirs)] == [1] * 40
        for system, jobs, others in ((warren, ours, theirs), (shop, theirs, ours)):
            assert len(rows_of(system, [job.job_id for job in jobs])) == 20
            assert not rows_of(system, [job.job_id for job in others])
    finally:
        shop.end()


def test_a_store_that_does_not_belong_to_the_broker_takes_nothing_from_it(
    warren: Warren, shop: Warren, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        for service in ("scheduler", "supervisor"):
            with subtests.test(f"a {service} with another store"):
                stranger = shop.start(service)
                assert stranger.process.wait(60) == SETTINGS
                assert "expected namespace 'warrener' on the broker to belong to" in stranger.log_text()
                assert "Traceback" not in stranger.log_text()
        with subtests.test("`warrener up` in a fresh folder"):
            (tmp_path / "fresh").mkdir()
            up = subprocess.run(
                [sys.executable, "-m", "warrener", "up", MODULE, "--broker", warren.broker_url],
                cwd=tmp_path / "fresh",
                env=os.environ | {"PYTHONPATH": warren.settings(0)["PYTHONPATH"]},
                capture_output=True,
                text=True,
                timeout=150,
                check=False,
            )
            assert up.returncode == SETTINGS, up.stderr
            assert "another system uses it" in " ".join(up.stderr.split())
        with subtests.test("the doctor"):
            [found] = [each for each in run_json(shop, "doctor", code=1) if each["check"] == "installation"]
            assert found["status"] == "error"
            assert "--adopt" in found["do"]
        with subtests.test("the first system has all its jobs"):
            jobs = [client.request("many") for _ in range(20)]
            assert [job.result(timeout=60) for job in jobs] == [1] * 20
        with subtests.test("a store adopts a broker that nobody works on, and not before"):
            run_command(shop, "topology", "--adopt", code=1)
            warren.end()
            run_command(shop, "topology", "--adopt")
            assert warren.start("scheduler").process.wait(60) == SETTINGS
            shop.start("scheduler")
            try:
                shop.wait_ready()
            finally:
                shop.end()


async def test_adopting_waits_for_consumers_that_are_gone(
    vhost_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a broker that was killed: its quorum queues count the consumers of before until they are found
    gone."""
    store = f"sqlite:///{tmp_path}/state.db"
    await migrate(store)
    counts: list[int] = []
    async with channel_on(vhost_url) as channel:
        await channel.queue_declare(REQUESTS_QUEUE.name, durable=True, arguments={"x-queue-type": "quorum"})
        await channel.basic_consume(REQUESTS_QUEUE.name, ignore, consumer_tag="one of before")
        count = BrokerInspector.queue

        async def count_and_cancel(inspector: BrokerInspector, name: str) -> QueueInfo | None:
            seen = await count(inspector, name)
            assert seen is not None
            counts.append(seen.consumers)
            await channel.basic_cancel("one of before")
            return seen

        monkeypatch.setattr(BrokerInspector, "queue", count_and_cancel)
        await adopt(ResolvedEndpoints(vhost_url, store, store, "warrener", from_up=True))
    assert (counts[0], counts[-1]) == (1, 0)


async def ignore(_: DeliveredMessage) -> None:
    """Leave the message as it is."""
