"""Point 3 of strain: a connection to PostgreSQL that is cut at the wrong moment, carries nothing any more, or
leads to a standby holds up what depends on it alone. Real services, and a proxy that knows a COMMIT."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from infra.store.tests.raw_sql import run_sql
from tests.acceptance.store_queries import tick_history
from tests.acceptance.warren import ServiceProcess, Warren, until
from tests.faults.postgres_proxy import COMMIT, How, PostgresProxy, When, by_way_of
from tests.servers.kinds import PostgresServer
from tests.servers.standby import StandbyPostgres

from warrener_client import JobSpec, SyncClient
from warrener_contracts.events import SchedulePutData, TickStatus
from warrener_contracts.schedule_rules import IntervalRule
from warrener_store import migrate

MODULE = "tests.acceptance.transaction_handlers"
EVER = datetime(2000, 1, 1, tzinfo=UTC)
SAVES_TICKS = "WITH advanced AS"
SAVING = f"""
SELECT pid FROM pg_stat_activity
WHERE state = 'active' AND pid <> pg_backend_pid() AND strpos(query, '{SAVES_TICKS}') > 0
"""
LOCKED = """
SELECT name FROM warrener_schedules
EXCEPT SELECT name FROM (SELECT name FROM warrener_schedules FOR UPDATE SKIP LOCKED) AS free
"""


@pytest.fixture
def on_postgres(postgres_store_url: str, warren: Warren) -> Warren:
    """Its store and its tick history share a database of PostgreSQL, which outlives it."""
    asyncio.run(run_sql(postgres_store_url, "CREATE TABLE effects (note text PRIMARY KEY)"))
    warren.store_url = warren.ledger_url = postgres_store_url
    return warren


def start_gated(warren: Warren, proxy: PostgresProxy, slots: int) -> ServiceProcess:
    """All services; the agent, whose handlers wait for the file `open`, reaches its ledger by the proxy."""
    warren.start("scheduler")
    warren.start("supervisor")
    ledger = by_way_of(warren.ledger_url, proxy.port)
    agent = warren.start("agent", MODULE, "--slots", str(slots), GATE="open", WARRENER_LEDGER_URL=ledger)
    warren.wait_ready()
    return agent


def test_3_an_agent_cut_at_the_commit_of_a_handler_holds_up_no_other(
    on_postgres: Warren, postgres_proxy: PostgresProxy
) -> None:
    """Its database believes in it still; its job is claimed by the others again and again meanwhile."""
    warren = on_postgres
    cut = start_gated(warren, postgres_proxy, slots=1)
    with SyncClient(warren.broker_url) as client:
        first = client.request("written")
        until(lambda: began(warren, first.job_id), "the handler to have written")
        postgres_proxy.strike(COMMIT, When.BEFORE, How.SILENT)
        (warren.folder / "open").touch()
        assert postgres_proxy.wait_struck()
        cut.kill()
        warren.start("agent", MODULE, "--slots", "20")
        others = client.request_many(JobSpec("written") for _ in range(40))
        for job in others:
            job.result(timeout=60)
        first.result(timeout=60)  # once the database has ended the transaction of the agent that was cut off
        assert client.request("written").result(timeout=60)
    assert len(asyncio.run(run_sql(warren.ledger_url, "SELECT note FROM effects"))) == 42


def test_3_a_silent_connection_fences_nothing(on_postgres: Warren, postgres_proxy: PostgresProxy) -> None:
    """It falls silent under a renewal; what runs goes on, and new jobs run too."""
    warren = on_postgres
    only = start_gated(warren, postgres_proxy, slots=10)
    with SyncClient(warren.broker_url) as client:
        running = list(client.request_many(JobSpec("long") for _ in range(5)))
        until(lambda: all(began(warren, f"{job.job_id}-1") for job in running), "the handlers to run")
        lease = leases(warren)
        postgres_proxy.strike("UPDATE warrener_ledger AS held SET lease_until", When.BEFORE, How.SILENT)
        assert postgres_proxy.wait_struck()
        until(lambda: leases(warren) > lease + timedelta(seconds=12), "two leases of time to pass")
        (warren.folder / "open").touch()
        assert {job.result(timeout=60) for job in running} == {only.process.pid}
    assert not list(warren.folder.glob("began-*-2")), "none ran twice"
    assert "self_fenced" not in only.log.read_text()


@pytest.mark.parametrize("when", When)
def test_3_a_scheduler_cut_while_it_saves_its_ticks_holds_no_schedule(
    on_postgres: Warren, postgres_proxy: PostgresProxy, when: When
) -> None:
    """No schedule is locked while its server still believes in the connection; all go on with another one."""
    warren = on_postgres
    warren.start("supervisor")
    warren.start("agent", MODULE)
    cut = warren.start("scheduler", WARRENER_STORE_URL=by_way_of(warren.store_url, postgres_proxy.port))
    warren.wait_ready()
    with SyncClient(warren.broker_url) as client:
        names = [f"second-{number}" for number in range(3)]
        rule = IntervalRule(every=timedelta(seconds=1))
        client.put_schedules([SchedulePutData(name=name, rule=rule, job_type="tick") for name in names])
        until(lambda: all(fired(warren, name) for name in names), "ticks")
        postgres_proxy.strike(SAVES_TICKS, when, How.SILENT)
        assert postgres_proxy.wait_struck()
        cut_at = datetime.now(UTC)
        locked = left_locked(warren)
        cut.kill()
        assert not locked
        warren.start("scheduler")
        until(lambda: all(fired(warren, name, after=cut_at) for name in names), "ticks")


def left_locked(warren: Warren) -> set[str]:
    """The schedules that are locked once the server is done with what it got. Seen twice: it may get to that
    statement, and be done with it, between two looks."""
    looks: list[set[str]] = []
    for _ in range(2):
        until(lambda: not asyncio.run(run_sql(warren.store_url, SAVING)), "the server to be done")
        looks.append({name for (name,) in asyncio.run(run_sql(warren.store_url, LOCKED))})
    return looks[0] & looks[1]


def began(warren: Warren, name: object) -> bool:
    return (warren.folder / f"began-{name}").exists()


def leases(warren: Warren) -> datetime:
    """The earliest end of a lease; in the past once one was lost."""
    earliest_end = "SELECT min(lease_until) FROM warrener_ledger WHERE finished_at IS NULL"
    ((earliest,),) = asyncio.run(run_sql(warren.ledger_url, earliest_end))
    return earliest if isinstance(earliest, datetime) else EVER


def fired(warren: Warren, schedule: str, after: datetime = EVER) -> bool:
    return any(
        tick.status is TickStatus.FIRED and tick.nominal_at > after for tick in tick_history(warren, schedule)
    )


def test_7_a_scheduler_without_its_database_gives_its_share_back_and_returns(
    on_postgres: Warren, postgres_proxy: PostgresProxy
) -> None:
    warren = on_postgres
    cut = warren.start("scheduler", WARRENER_STORE_URL=by_way_of(warren.store_url, postgres_proxy.port))
    warren.start("supervisor")
    warren.start("agent", MODULE, "--slots", "50")
    warren.wait_ready()
    postgres_proxy.blackhole()
    with SyncClient(warren.broker_url) as client:
        jobs = list(client.request_many(JobSpec("tick") for _ in range(100)))
        until(lambda: not cut.ready(), "the scheduler to say that it cannot work")
        warren.start("scheduler")
        for job in jobs:
            job.result(timeout=60)
        assert not cut.ready()
        postgres_proxy.heal()
        until(cut.ready, "it to consume again")
        warren.services[-1].kill()
        assert client.request("tick").result(timeout=60) is None


@pytest.fixture
def proxy(own_postgres: PostgresServer) -> Iterator[PostgresProxy]:
    one = PostgresProxy(own_postgres.port)
    yield one
    one.close()


@pytest.fixture
def routed(own_postgres: PostgresServer, proxy: PostgresProxy, warren: Warren) -> Warren:
    """Its store and its ledger share a database, which it reaches by way of the proxy."""
    url = own_postgres.add_database("routed")
    asyncio.run(migrate(url))
    warren.store_url = warren.ledger_url = by_way_of(url, proxy.port)
    return warren


def is_unready(service: ServiceProcess) -> bool:
    return not service.ready()


def test_15_services_routed_to_a_standby_come_back_with_their_address(
    routed: Warren, own_postgres: PostgresServer, own_standby: StandbyPostgres, proxy: PostgresProxy
) -> None:
    warren = routed
    warren.start_all(MODULE)
    until(lambda: own_standby.has_followed(own_postgres), "the standby to have the tables")
    with SyncClient(warren.broker_url) as client:
        client.request("tick").result(timeout=60)

        proxy.target_port = own_standby.port
        proxy.reset()
        for service in warren.services:
            until(partial(is_unready, service), f"{service.name} to report the standby")
        meanwhile = [client.request("tick") for _ in range(10)]

        proxy.target_port = own_postgres.port  # new connections alone: none is closed
        for job in meanwhile:
            job.result(timeout=60)
        client.request("tick").result(timeout=60)
        warren.wait_ready()
    assert {service.process.poll() for service in warren.services} == {None}, "no service has ended"
