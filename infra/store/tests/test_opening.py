"""Urls are read or refused; a store of parts has the methods of the whole store, on the same connections."""

import gc
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store_rows import NOON, after, queued_job

from warrener_contracts.postgres_address import PostgresAddress
from warrener_store import open_store
from warrener_store.databases.address import SqliteAddress, StoreUrlError, parse_address, server_settings
from warrener_store.memory import MemoryStore
from warrener_store.opening import PARTS, PROPERTIES, open_store_on_demand, part_of
from warrener_store.postgres import PostgresStore
from warrener_store.sqlite import SqliteStore
from warrener_store.store import Store


@pytest.mark.parametrize(
    ("url", "path"),
    [("sqlite:///a/b.db", "a/b.db"), ("sqlite:////a/b.db", "/a/b.db"), ("sqlite:///b.db", "b.db")],
)
def test_three_slashes_are_relative_and_four_absolute(url: str, path: str) -> None:
    assert parse_address(url) == SqliteAddress(Path(path))
    assert str(parse_address(url)) == url


def test_a_postgres_url_has_the_grammar_of_the_ledger() -> None:
    address = parse_address("postgresql://user:hunter2@one:5433,two/base?application_name=mine")
    assert isinstance(address, PostgresAddress)
    assert str(address) == "postgresql://user:***@one:5433,two/base"
    assert server_settings(address)["application_name"] == "mine"


@pytest.mark.parametrize(
    ("url", "because"),
    [
        ("", "cannot be read"),
        ("store.db", "cannot be read"),
        ("mysql://user:hunter2@host/base", "mysql"),
        ("sqlite://", "name a file"),
        ("sqlite:///:memory:", "name a file"),
        ("sqlite://here/b.db", "name a file"),
        ("postgresql://user:hunter2@host", "name the database"),
        ("postgresql://user:hunter2@host:port/base", "cannot be read"),
        ("postgresql://user:hunter2@host/base?pool=9", "got pool; leave it out"),
    ],
)
def test_a_bad_url_is_refused_with_what_was_expected(url: str, because: str) -> None:
    with pytest.raises(StoreUrlError, match="expected") as refusal:
        open_store(url)
    assert because in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


WHOLE: dict[str, type[Store]] = {"sqlite": SqliteStore, "postgres": PostgresStore}
NAMES = [name for names in PARTS.values() for name in names.split()]


@pytest.mark.parametrize("name", sorted({*NAMES, *(name for name in dir(Store) if name[0] != "_")}))
@pytest.mark.parametrize("engine", WHOLE)
def test_a_part_has_the_method_of_the_whole_store(engine: str, name: str) -> None:
    part = part_of(engine, name)
    whole = WHOLE[engine]
    if name in PROPERTIES:
        assert issubclass(whole, part.__mro__[1] if part.__module__ == "abc" else part)
    else:
        assert getattr(part, name) is getattr(whole, name)


async def test_parts_share_the_connections_of_their_store(url: str, store: Store) -> None:
    whole, job = store, queued_job()
    store = open_store_on_demand(url)
    await store.start()
    await store.insert_jobs([job])  # of the whole store, as it writes
    assert await store.jobs_by_id([job.job_id]) == {job.job_id: job}
    assert await store.agents(None) == []
    assert await store.escalations.incidents() == []
    assert await store.claim_duty("prune", "me", NOON, after(60))
    assert await store.duties(NOON) == {"prune": "me"}
    await store.close()
    assert await whole.jobs_by_id([job.job_id]) == {job.job_id: job}
    assert not hasattr(store, "jobs_by_name")
    assert not hasattr(store, "_jobs"), "an unknown name is no method"


def test_a_read_imports_its_own_aggregate_alone() -> None:
    program = (
        "import sys; from warrener_store.opening import part_of; part_of('sqlite', 'list_jobs'); "
        "print(*(name for name in sys.modules if name.startswith('warrener_store.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    folders = {name.split(".")[1] for name in done.stdout.split() if name.count(".") > 1}
    assert folders == {"databases", "jobs"}


def test_the_database_of_a_store_that_is_gone_is_closed() -> None:
    """Python 3.13 warns of one that is not."""
    store = MemoryStore()
    connection = store.connection
    del store
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
