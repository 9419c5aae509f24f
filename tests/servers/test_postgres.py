"""The private PostgreSQL of tests: the same after a kill, and never root."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from infra.devservers.tests.test_servers import NewFolder, made
from tests.servers.postgres import PrivatePostgres

from warrener_devservers import ServerFailed, ServerMissing
from warrener_devservers.process import descendants


@pytest.fixture(scope="module")
def server(server_folders: NewFolder) -> Iterator[PrivatePostgres]:
    """One server that these tests kill and start again, in turn."""
    yield from made(lambda: PrivatePostgres(server_folders("server")))


@pytest.fixture
def postgres(server: PrivatePostgres) -> PrivatePostgres:
    server.start()
    return server


def test_none_of_its_processes_is_root(postgres: PrivatePostgres) -> None:
    postmaster = int((postgres.log.parent / "data" / "postmaster.pid").read_text().splitlines()[0])
    owners = {Path(f"/proc/{pid}").stat().st_uid for pid in (postmaster, *descendants(postmaster))}
    assert 0 not in owners


def test_what_was_committed_survives_a_kill(postgres: PrivatePostgres) -> None:
    postgres.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    url = postgres.url
    postgres.kill()
    assert not postgres.running
    postgres.start()
    assert (postgres.url, postgres.execute("SELECT answer FROM kept")) == (url, "42")


def test_a_database_is_made_from_a_template_and_dropped_with_its_guests(postgres: PrivatePostgres) -> None:
    assert postgres.add_database("model").endswith("/model")
    postgres.add_database("copy", template="model")
    postgres.drop_database("copy")
    assert postgres.execute("SELECT count(*) FROM pg_database WHERE datname = 'copy'") == "0"


def test_an_error_of_sql_is_an_error_here_and_a_bad_name_is_refused(postgres: PrivatePostgres) -> None:
    with pytest.raises(ServerFailed, match="no_such_table"):
        postgres.execute("SELECT * FROM no_such_table")
    with pytest.raises(ValueError, match="database name of a-z"):
        postgres.add_database('a"; DROP DATABASE postgres')


def test_where_it_is_missing_its_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WARRENER_POSTGRES_BIN", str(tmp_path))
    with pytest.raises(ServerMissing, match="apt-get install postgresql"):
        PrivatePostgres(tmp_path / "server")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_a_folder_that_its_user_cannot_enter_is_reported_before_initdb(
    server: PrivatePostgres, tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(ServerFailed, match="may enter"):
        PrivatePostgres(closed / "server").start()
    assert not server.log.is_relative_to(closed)
