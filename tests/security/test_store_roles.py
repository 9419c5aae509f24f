"""Roles of PostgreSQL with the printed grants do their work, and nothing else."""

import asyncio
import json
from datetime import UTC, datetime
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest
from services.console.tests.web.conftest import browser_on, open_console
from tests.acceptance.warren import Warren
from tests.security.attacks import attack
from tests.store_access import opened_store
from typer.testing import CliRunner

from warrener.command.app import app
from warrener.doctor import CheckStatus
from warrener.doctor.roles import check_store_role
from warrener_client import SyncClient
from warrener_store.grants import store_tables
from warrener_store.retention.rows import RetentionKind


async def run(url: str, *statements: str) -> list[asyncpg.Record]:
    """Run statements; the rows of the last one."""
    connection = await asyncpg.connect(url)
    try:
        rows = list[asyncpg.Record]()
        for statement in statements:
            rows = await connection.fetch(statement)
        return rows
    finally:
        await connection.close()


class StoreUsers:
    """Makes roles of PostgreSQL for one store."""

    def __init__(self, owner_url: str) -> None:
        self.owner_url = owner_url

    async def make(self, role: str) -> str:
        """Make a role with the printed grants; the URL of the store for it."""
        name = f"{role}-{uuid4().hex[:8]}"
        printed = CliRunner().invoke(app, ["migrate", "--grants", role, "--user", name])
        assert printed.exit_code == 0, printed.output
        made = f"CREATE ROLE \"{name}\" LOGIN PASSWORD 'secret'"
        await run(self.owner_url, made, *printed.stdout.split(";\n")[:-1])
        address = urlsplit(self.owner_url)
        place = f"{name}:secret@{address.hostname}:{address.port}"
        return urlunsplit(address._replace(netloc=place))


@pytest.fixture
def users(postgres_store_url: str) -> StoreUsers:
    """Makes roles for an empty store."""
    return StoreUsers(postgres_store_url)


async def refused(url: str, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await run(url, statement)


async def test_the_grants_name_every_table(postgres_store_url: str) -> None:
    rows = await run(postgres_store_url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    assert {row["tablename"] for row in rows} == {*store_tables(), "warrener_schema"}


@attack("console's database role", "change a job", refused="grants of PostgreSQL")
async def test_console_changes_a_job(users: StoreUsers) -> None:
    await refused(await users.make("console"), "UPDATE warrener_jobs SET state = 'dead'")


@attack("console's database role", "delete its audit log", refused="grants of PostgreSQL")
async def test_console_deletes_its_audit_log(users: StoreUsers) -> None:
    await refused(await users.make("console"), "DELETE FROM warrener_audit")


@attack("console's database role", "rewrite who did what in its audit log", refused="grants of PostgreSQL")
async def test_console_rewrites_its_audit_log(users: StoreUsers) -> None:
    url = await users.make("console")
    for column in ("actor", "action", "recorded_at"):
        await refused(url, f"UPDATE warrener_audit SET {column} = NULL")
    await run(url, "UPDATE warrener_audit SET outcome = 'accepted', completed_at = now()")


@attack("console's database role", "fill the disk by temporary tables", refused="grants of PostgreSQL")
async def test_console_makes_a_temporary_table(users: StoreUsers) -> None:
    await refused(await users.make("console"), "CREATE TEMP TABLE mine (one integer)")


@attack("console's database role", "read the secret from which ids derive", refused="grants of PostgreSQL")
async def test_console_reads_the_secret(users: StoreUsers) -> None:
    url = await users.make("console")
    await refused(url, "SELECT secret FROM warrener_installation")
    await run(url, "SELECT installation_id FROM warrener_installation")


@attack("scheduler's database role", "read or forge sessions of the console", refused="grants of PostgreSQL")
async def test_scheduler_reads_sessions(users: StoreUsers) -> None:
    await refused(await users.make("scheduler"), "SELECT * FROM warrener_sessions")


@attack("supervisor's database role", "change the audit log", refused="grants of PostgreSQL")
async def test_supervisor_changes_the_audit_log(users: StoreUsers) -> None:
    url = await users.make("supervisor")
    await refused(url, "UPDATE warrener_audit SET outcome = 'accepted'")
    await refused(url, "DELETE FROM warrener_audit")


@attack("scheduler's database role", "drop or make tables", refused="grants of PostgreSQL")
async def test_scheduler_drops_a_table(users: StoreUsers) -> None:
    url = await users.make("scheduler")
    await refused(url, "DROP TABLE warrener_jobs")
    await refused(url, "CREATE TABLE mine (one integer)")


@pytest.mark.parametrize("role", ["scheduler", "supervisor", "console"])
async def test_the_doctor_compares_grants(users: StoreUsers, role: str) -> None:
    assert (await check_store_role(await users.make(role), role)).status is CheckStatus.OK
    other = await check_store_role(await users.make("console" if role != "console" else "scheduler"), role)
    assert other.status is CheckStatus.ERROR
    assert "INSERT warrener_jobs" in other.message


@attack("console's database role", "keep a column that was granted by hand", refused="`warrener doctor --as`")
async def test_the_doctor_sees_a_grant_of_a_column(users: StoreUsers) -> None:
    url = await users.make("console")
    name = urlsplit(url).username
    await run(users.owner_url, f'GRANT SELECT (secret), UPDATE (one) ON warrener_installation TO "{name}"')
    await run(users.owner_url, f'GRANT UPDATE (actor) ON warrener_audit TO "{name}"')
    await run(users.owner_url, f'REVOKE UPDATE (sentence) ON warrener_audit FROM "{name}"')
    found = (await check_store_role(url, "console")).message
    for named in (
        "may SELECT (secret) warrener_installation",
        "may UPDATE (one) warrener_installation",
        "may UPDATE (actor) warrener_audit",
        "may not UPDATE (sentence) warrener_audit",
    ):
        assert named in found


def doctor(store_url: str) -> dict[str, dict[str, str]]:
    """The findings of the plain doctor about the store, by check; no broker answers."""
    words = ["doctor", "--broker", "amqp://localhost:1/", "--store", store_url, "--json"]
    found: list[dict[str, str]] = json.loads(CliRunner().invoke(app, words).stdout)
    return {one["check"]: one for one in found if one["check"].startswith("store")}


async def test_the_plain_doctor_compares_the_user_of_the_store_with_the_console(users: StoreUsers) -> None:
    for role in ("console", "scheduler"):
        found = await asyncio.to_thread(doctor, await users.make(role))
        assert {one["status"] for one in found.values()} == {"ok"}, found
        assert f"what the role {role} needs, and nothing else" in found["store user"]["message"]
    owner = (await asyncio.to_thread(doctor, users.owner_url))["store user"]
    assert owner["status"] == "warning"
    assert "owns the tables" in owner["message"]
    assert "`warrener migrate --grants console --user NAME`" in owner["do"]

    url = await users.make("console")
    name = urlsplit(url).username
    await run(users.owner_url, f'GRANT UPDATE, DELETE ON warrener_jobs TO "{name}"')
    more = (await asyncio.to_thread(doctor, url))["store user"]
    assert more["status"] == "warning"
    assert "may UPDATE warrener_jobs, DELETE warrener_jobs, which" in more["message"]
    await run(users.owner_url, f'REVOKE SELECT ON warrener_incidents FROM "{name}"')
    less = (await asyncio.to_thread(doctor, url))["store user"]
    assert less["status"] == "error"
    assert less["message"] == f"user {name} may not SELECT warrener_incidents"
    assert f"`warrener migrate --grants console --user {name}`" in less["do"]


async def test_the_scheduler_deletes_what_is_old(users: StoreUsers) -> None:
    await run(
        users.owner_url,
        "INSERT INTO warrener_audit VALUES (gen_random_uuid(), now() - interval '1 day', '', '', '', '', '', "
        "'', '', 'accepted', '', now())",
    )
    async with opened_store(await users.make("scheduler")) as store:
        for kind in RetentionKind:
            old = await store.old_rows(kind, datetime.now(UTC), None, 10)
            gone = await store.delete_rows(kind, datetime.now(UTC), old.rows)
            assert gone == (kind is RetentionKind.AUDIT_RECORDS), kind


async def test_services_and_console_work_with_roles_of_their_own(warren: Warren, users: StoreUsers) -> None:
    for service in ("scheduler", "supervisor"):
        warren.start(service, WARRENER_STORE_URL=await users.make(service))
    warren.start("agent", "tests.acceptance.dead_handlers")
    warren.wait_ready()
    (warren.folder / "mended").touch()
    with SyncClient(warren.broker_url) as client:
        assert client.request("flights.load", {"number": 3}).result(timeout=60) == 3
    console_url = await users.make("console")
    async with open_console(console_url, warren.broker_url) as console, browser_on(console) as browser:
        assert "flights.load" in (await browser.get("/jobs")).text
