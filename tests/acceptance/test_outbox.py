"""Requests that are written in transactions of their requesters, by the libraries that those use."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from tests.acceptance.command_line import BARE, run_in
from tests.acceptance.warren import until
from tests.broker_access import count_messages, take_events

from warrener.outbox import PostgresOutbox, SqliteOutbox, relay_batch
from warrener_client import BadRequest, Client, Outbox, SyncClient
from warrener_contracts.private_payloads import encrypted_key
from warrener_contracts.topology import REQUESTS_QUEUE
from warrener_store.databases.address import SqliteAddress, parse_address

FIRST = "the first request declares the queue"
ROOT = Path(__file__).parents[2]


class Write(Protocol):
    """Writes a request with a text in a transaction of the database at a URL, which commits or does not."""

    def __call__(self, url: str, text: str, *, commits: bool) -> UUID: ...


@pytest.fixture
def broker_url(vhost_url: str) -> str:
    """A virtual host with the queue of requests."""
    with SyncClient(vhost_url) as client:
        client.request("mail.send", {"text": FIRST})
    return vhost_url


@pytest.fixture
def database(postgres_url: str) -> str:
    run_outbox("create", postgres_url)
    return postgres_url


def run_outbox(word: str, url: str, *more: str) -> Any:
    """The JSON that a command of the outbox prints."""
    done = run_in(ROOT, "warrener", "outbox", word, "--database", url, "--json", *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def relay_all(url: str, broker_url: str) -> None:
    """Publish all that is committed."""

    async def relay() -> None:
        at = parse_address(url)
        table = SqliteOutbox(at) if isinstance(at, SqliteAddress) else PostgresOutbox(at)
        async with Client(broker_url) as client:
            while any(await relay_batch(table, client)):
                pass
        await table.close()

    asyncio.run(relay())


def requested(broker_url: str) -> list[tuple[UUID, str]]:
    """Take the requests out of their queue: the id and the text of each, in their order."""
    found = [
        (UUID(one.id), one.data.arguments["text"]) for one in take_events(broker_url, REQUESTS_QUEUE.name)
    ]
    return [one for one in found if one[1] != FIRST]


# -- one writer for each library ---------------------------------------------------------------------------


def by_psycopg(url: str, text: str, *, commits: bool) -> UUID:
    with psycopg.connect(url) as connection:
        job_id = Outbox().enqueue(connection, "mail.send", {"text": text}, ordering_key="mails")
        if not commits:
            connection.rollback()
    return job_id


def by_async_psycopg(url: str, text: str, *, commits: bool) -> UUID:
    async def write() -> UUID:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            job_id = await Outbox().enqueue_async(connection, "mail.send", {"text": text})
            if not commits:
                await connection.rollback()
        return job_id

    return asyncio.run(write())


def by_asyncpg(url: str, text: str, *, commits: bool) -> UUID:
    async def write() -> UUID:
        connection = await asyncpg.connect(url)
        opened = connection.transaction()
        await opened.start()
        job_id = await Outbox().enqueue_async(connection, "mail.send", {"text": text}, ordering_key="mails")
        await (opened.commit() if commits else opened.rollback())
        await connection.close()
        return job_id

    return asyncio.run(write())


def by_sqlalchemy(url: str, text: str, *, commits: bool) -> UUID:
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with orm.Session(engine) as session:
        job_id = Outbox().enqueue(session, "mail.send", {"text": text}, ordering_key="mails")
        if commits:
            session.commit()
    engine.dispose()
    return job_id


def by_async_sqlalchemy(url: str, text: str, *, commits: bool) -> UUID:
    async def write() -> UUID:
        engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))
        async with AsyncSession(engine) as session:
            job_id = await Outbox().enqueue_async(session, "mail.send", {"text": text}, ordering_key="mails")
            if commits:
                await session.commit()
        await engine.dispose()
        return job_id

    return asyncio.run(write())


def by_django(url: str, text: str, *, commits: bool) -> UUID:
    with django_connection(url) as (connection, transaction), transaction.atomic(using=connection.alias):
        job_id = Outbox().enqueue(connection, "mail.send", {"text": text}, ordering_key="mails")
        transaction.set_rollback(not commits, using=connection.alias)
    return job_id


@contextmanager
def django_connection(url: str) -> Generator[tuple[Any, Any]]:
    """A connection of Django, and its transactions, without a project."""
    db, at = import_module("django.db"), sa.make_url(url)
    engine = "sqlite3" if at.drivername == "sqlite" else "postgresql"
    place = {"USER": at.username, "PASSWORD": at.password, "HOST": at.host, "PORT": at.port}
    conf = import_module("django.conf").settings
    if not conf.configured:
        conf.configure()
        import_module("django").setup()
    one = import_module(f"django.db.backends.{engine}.base").DatabaseWrapper(
        db.connections.configure_settings({"default": {}})["default"]
        | {"ENGINE": f"django.db.backends.{engine}", "NAME": at.database, **place},
        alias="shop",
    )
    db.connections["shop"] = one
    try:
        yield one, db.transaction
    finally:
        one.close()
        del db.connections["shop"]


WRITERS: dict[str, Write] = {
    "psycopg": by_psycopg,
    "psycopg async": by_async_psycopg,
    "asyncpg": by_asyncpg,
    "SQLAlchemy": by_sqlalchemy,
    "SQLAlchemy async": by_async_sqlalchemy,
    "Django": by_django,
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_request_is_published_once_its_transaction_has_committed(
    write: Write, database: str, broker_url: str
) -> None:
    job_id = write(database, "committed", commits=True)
    write(database, "rolled back", commits=False)
    relay_all(database, broker_url)
    assert requested(broker_url) == [(job_id, "committed")]


def test_a_file_of_sqlite_has_an_outbox_too(tmp_path: Path, broker_url: str) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    run_outbox("create", url)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        job_ids = [Outbox().enqueue(connection, "mail.send", {"text": text}) for text in ("one", "two")]
        connection.commit()
        Outbox().enqueue(connection, "mail.send", {"text": "rolled back"}, ordering_key="mails")
        connection.rollback()
    with django_connection(url) as (connection, _):
        job_ids.append(Outbox().enqueue(connection, "mail.send", {"text": "three"}, ordering_key="mails"))
    relay_all(url, broker_url)
    assert requested(broker_url) == list(zip(job_ids, ("one", "two", "three"), strict=True))


# -- death at every point ----------------------------------------------------------------------------------


def test_a_requester_that_dies_leaves_what_it_has_committed(database: str, broker_url: str) -> None:
    for point in ("begun", "written", "committed", "alive"):
        command = [sys.executable, "-m", "tests.acceptance.outbox_writer", database, point]
        code = subprocess.run(command, cwd=ROOT, timeout=60, check=False).returncode
        assert code == (0 if point == "alive" else -signal.SIGKILL)
    until(lambda: run_outbox("show", database)["waiting"] == 2, "the rows of dead requesters to be gone")
    relay_all(database, broker_url)
    assert [text for _, text in requested(broker_url)] == ["committed", "alive"]


@pytest.mark.timeout(500)  # it starts fifty processes
def test_relays_that_die_fifty_times_lose_nothing_and_keep_the_order_of_each_key(
    database: str, broker_url: str
) -> None:
    written = dict[UUID, int]()

    def write(key: str) -> None:
        """Write under a key that two writers share; a fifth is rolled back."""
        with psycopg.connect(database) as connection:
            for step in range(25):
                job_id = Outbox().enqueue(connection, "mail.send", {"text": key}, ordering_key=key)
                number = connection.execute("SELECT currval('warrener_outbox_id_seq')").fetchone()
                assert number is not None
                if step % 5:
                    connection.commit()
                    written[job_id] = number[0]
                else:
                    connection.rollback()

    for _ in range(25):
        [before] = count_messages(broker_url, REQUESTS_QUEUE.name)
        with ThreadPoolExecutor() as writers:
            writing = [writers.submit(write, key) for key in "aabbcc"]
            with start_relay(database, broker_url), start_relay(database, broker_url):
                until(partial(has_grown, broker_url, before), "a relay at work")
            for one in writing:
                one.result()
    relay_all(database, broker_url)
    found = requested(broker_url)
    assert {job_id for job_id, _ in found} == written.keys()
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM warrener_outbox").fetchone() == (0,)
    for key in "abc":
        order = [written[job_id] for job_id in dict.fromkeys(one for one, text in found if text == key)]
        assert order == sorted(order), "the first publication of each, in the order of commits"


def has_grown(broker_url: str, before: int) -> bool:
    return count_messages(broker_url, REQUESTS_QUEUE.name) != [before]


@contextmanager
def start_relay(database: str, broker_url: str) -> Generator[subprocess.Popen[bytes]]:
    """A relay, which is killed at the end of the block."""
    command = ["warrener", "outbox", "relay", "--database", database, "--broker", broker_url]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=BARE, cwd=ROOT, stdout=quiet, stderr=quiet) as relay:
        try:
            yield relay
        finally:
            relay.kill()


def test_an_encrypted_request_is_stored_encrypted(database: str, tmp_path: Path, broker_url: str) -> None:
    keys = tmp_path / "keys"
    assert run_in(ROOT, "warrener", "keys", "2026-11", "--file", str(keys)).returncode == 0
    with psycopg.connect(database) as connection:
        Outbox(encryption_keys=keys).enqueue(connection, "mail.send", {"text": "a secret"})
        row = connection.execute("SELECT request FROM warrener_outbox").fetchone()
    assert row is not None
    assert "a secret" not in row[0]
    relay_all(database, broker_url)
    last = take_events(broker_url, REQUESTS_QUEUE.name)[-1]
    assert encrypted_key(last.data.arguments) == "2026-11"


# -- bad input ---------------------------------------------------------------------------------------------


def test_a_row_that_is_no_request_stops_no_other(database: str, broker_url: str) -> None:
    with psycopg.connect(database) as connection:
        for text in ("", "{}", '{"specversion": "1.0"'):
            statement = "INSERT INTO warrener_outbox (ordering_key, job_id, request) VALUES ('', %s, %s)"
            connection.execute(statement, [UUID(int=7), text])
        job_id = Outbox().enqueue(connection, "mail.send", {"text": "good"})
    assert run_outbox("relay", database, "--once", "--broker", broker_url) == {"published": 1}
    assert requested(broker_url) == [(job_id, "good")]
    assert run_outbox("show", database)["refused"] == 3
    with psycopg.connect(database) as connection:
        refusals = connection.execute("SELECT refusal FROM warrener_outbox").fetchall()
    assert all("expected" in refusal for (refusal,) in refusals)


def test_what_cannot_be_written_is_refused_at_once(database: str) -> None:
    with psycopg.connect(database) as connection:
        with pytest.raises(BadRequest, match="job_type"):
            Outbox().enqueue(connection, "no type", {})
        with pytest.raises(TypeError, match="expected a connection of sqlalchemy, django"):
            Outbox().enqueue(object(), "mail.send", {})

    async def mix() -> None:
        async with await psycopg.AsyncConnection.connect(database) as connection:
            with pytest.raises(TypeError, match="use enqueue_async"):
                Outbox().enqueue(connection, "mail.send", {})
        with psycopg.connect(database) as blocking, pytest.raises(TypeError, match=r"use enqueue\Z"):
            await Outbox().enqueue_async(blocking, "mail.send", {})

    asyncio.run(mix())


def test_a_relay_without_its_table_names_the_command(postgres_url: str, broker_url: str) -> None:
    done = run_in(
        ROOT, "warrener", "outbox", "relay", "--once", "--database", postgres_url, "--broker", broker_url
    )
    assert done.returncode != 0
    assert "warrener outbox create" in done.stderr
