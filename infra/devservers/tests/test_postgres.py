"""A private PostgreSQL: never root, the same after a kill, and a database for each test."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from warrener_devservers import PrivatePostgres, ServerFailed, ServerMissing
from warrener_devservers.process import descendants

NewFolder = Callable[[str], Path]


@pytest.fixture(scope="module")
def server(server_folders: NewFolder) -> Iterator[PrivatePostgres]:
    """One server that these tests kill and start again, in turn."""
    try:
        one = PrivatePostgres(server_folders("server"))
    except ServerMissing as missing:
        pytest.skip(str(missing))
    yield one
    one.kill()


@pytest.fixture
def running(server: PrivatePostgres) -> PrivatePostgres:
    server.start()
    return server


def test_none_of_its_processes_is_root(running: PrivatePostgres) -> None:
    postmaster = int((running.log.parent / "data" / "postmaster.pid").read_text().splitlines()[0])
    owners = {Path(f"/proc/{pid}").stat().st_uid for pid in (postmaster, *descendants(postmaster))}
    assert 0 not in owners


def test_what_was_committed_survives_a_kill(running: PrivatePostgres) -> None:
    running.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    url = running.url
    running.kill()
    assert not running.running
    running.start()
    assert (running.url, running.execute("SELECT answer FROM kept")) == (url, "42")


def test_a_database_is_made_from_a_template_and_dropped_with_its_guests(running: PrivatePostgres) -> None:
    assert running.add_database("model").endswith("/model")
    running.add_database("copy", template="model")
    running.drop_database("copy")
    assert running.execute("SELECT count(*) FROM pg_database WHERE datname = 'copy'") == "0"


def test_an_error_of_sql_is_an_error_here(running: PrivatePostgres) -> None:
    with pytest.raises(ServerFailed, match="no_such_table"):
        running.execute("SELECT * FROM no_such_table")


def test_what_is_no_name_of_a_database_is_refused(running: PrivatePostgres) -> None:
    with pytest.raises(ValueError, match="database name of a-z"):
        running.add_database('a"; DROP DATABASE postgres')


def test_where_postgresql_is_missing_the_package_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
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
