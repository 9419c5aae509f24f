"""PgBouncer in transaction mode is refused in one sentence that names it, before it breaks a statement."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.servers.kinds import PostgresServer
from tests.servers.pgbouncer import PgBouncer
from tests.store_access import opened_store

from warrener_agent.ledger import LedgerUnavailable, connected_ledger
from warrener_agent.ledger.postgres_sessions import CLAIMS
from warrener_contracts.postgres_limits import session_settings
from warrener_devservers import ServerMissing
from warrener_store import StoreUnavailable
from warrener_store.databases.address import SESSION

OURS = sorted({*SESSION, *CLAIMS, *session_settings(lock=1, statement=2, idle_transaction=3)})
NAMED = "a pooler such as PgBouncer answers at 127.0.0.1:.*; name the address of PostgreSQL itself"


@pytest.fixture(params=[(), OURS], ids=["as installed", "configured to drop our settings"])
def pooler(
    request: pytest.FixtureRequest, postgres: PostgresServer, server_folders: Callable[[str], Path]
) -> Iterator[PgBouncer]:
    try:
        one = PgBouncer(server_folders("pgbouncer"), postgres, request.param)
    except ServerMissing as missing:
        pytest.skip(str(missing))
    one.start()
    yield one
    one.stop()


async def test_16_the_store_names_the_pooler_in_front_of_its_database(
    pooler: PgBouncer, postgres_store_url: str
) -> None:
    with pytest.raises(StoreUnavailable, match=NAMED):
        async with opened_store(pooler.url(postgres_store_url)):
            pass


async def test_16_the_ledger_names_the_pooler_in_front_of_its_database(
    pooler: PgBouncer, postgres_url: str
) -> None:
    with pytest.raises(LedgerUnavailable, match=NAMED):
        async with connected_ledger(pooler.url(postgres_url)):
            pass
