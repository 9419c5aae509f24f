"""The daily export of `make demo`, each part with users of broker and database that have its role.

Files of which three are damaged, a ledger whose user owns a schema for the tables of its handlers, an agent
that is killed on the way, the alerts, the summary, and the console.
"""

import asyncio
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from examples.export import handlers
from examples.export.files import damage, write_days
from examples.export.outcome import ROWS_LOADED, read_outcome
from services.console.tests.web.conftest import browser_on, open_console
from tests.acceptance.command_line import run_command
from tests.acceptance.warren import ROOT, Warren, until
from tests.security.test_every_role_works import MakeUser, user
from tests.security.test_store_roles import StoreUsers, run
from tests.store_access import on_store, opened_store

from warrener.doctor import CheckStatus
from warrener.doctor.roles import check_store_role
from warrener_agent.ledger import open_ledger
from warrener_client import Client
from warrener_contracts.permissions import BrokerRole

__all__ = ["user"]

FILES = 12
ESCALATION = ROOT / "examples" / "export" / "escalation.toml"
ALERT = "Alert: a file of the export was not loaded"


async def make_ledger(owner_url: str) -> str:
    """Make the tables of a ledger; its URL for a user with the role, and a schema for what handlers make."""
    owned = open_ledger(owner_url)
    await owned.start()
    await owned.close()
    url = await StoreUsers(owner_url).make("ledger")
    await run(owner_url, f'CREATE SCHEMA AUTHORIZATION "{urlsplit(url).username}"')
    return url


def ended_loads(store_url: str) -> int:
    counts = on_store(store_url, lambda store: store.count_jobs())
    return sum(one.jobs for one in counts if one.job_type == "export.load" and one.state.terminal)


async def test_the_demo_runs_with_a_user_for_each_role_and_nothing_more(
    postgres_url: str, user: MakeUser, warren: Warren, postgres_store_url: str
) -> None:
    files = warren.folder / "files"
    damaged = damage(list(islice(write_days(files), FILES)))
    users = StoreUsers(postgres_store_url)
    stores = {role: await users.make(role) for role in ("scheduler", "supervisor", "console")}
    ledger = await make_ledger(postgres_url)
    apply = ("topology", "apply", "--queue", "default", "--store", postgres_store_url)
    run_command(warren, *apply, WARRENER_BROKER_URL=user(BrokerRole.TOPOLOGY_ADMIN).url)

    never = {"WARRENER_DECLARE": "never", "WARRENER_SUPERVISOR_ESCALATION_FILE": str(ESCALATION)}
    for role in (BrokerRole.SCHEDULER, BrokerRole.SUPERVISOR):
        urls = {"WARRENER_BROKER_URL": user(role).url, "WARRENER_STORE_URL": stores[role.value]}
        warren.start(role.value, **urls, **never)
    exports = ("export.*",)
    agent = user(BrokerRole.AGENT, queues=("default",), job_types=exports, child_types=exports)
    own = {"WARRENER_BROKER_URL": agent.url, "WARRENER_LEDGER_URL": ledger}
    first, _ = (warren.start("agent", handlers.__name__, "--slots", "2", **own, **never) for _ in range(2))
    warren.wait_ready()

    asker = user(BrokerRole.ASKER, job_types=("export.night",))
    async with Client(asker.url, declare="never") as client:
        job = await client.request("export.night", {"folder": str(files)})
        several = FILES // 4
        console_url = stores["console"]
        await asyncio.to_thread(until, lambda: ended_loads(console_url) >= several, "some files to be loaded")
        first.kill()
        summary = await job.result(as_=handlers.Summary, timeout=240)
    [loaded] = await run(ledger, ROWS_LOADED)
    async with opened_store(console_url) as store:
        outcome = await read_outcome(store, summary, files, damaged, (loaded[0], loaded[1]))
    assert outcome.mistakes() == []
    [supervisor] = (one for one in warren.services if one.name == "supervisor")
    until(lambda: alerts_in(supervisor.log) >= len(damaged), "an alert for each damaged file")

    console = user(BrokerRole.CONSOLE)
    async with open_console(console_url, console.url) as opened, browser_on(opened) as browser:
        assert "export.night" in (await browser.get("/jobs")).text
        assert "export.load" in (await browser.get("/dead-letters")).text
    for name, url in {**stores, "ledger": ledger}.items():
        assert (await check_store_role(url, name)).status is CheckStatus.OK, name


def alerts_in(log: Path) -> int:
    return log.read_text(errors="replace").count(ALERT)
