"""Urls of stores are read, or refused with the expected form."""

from pathlib import Path

import pytest

from warrener_store import open_store
from warrener_store.databases.address import PostgresAddress, SqliteAddress, StoreUrlError, parse_address


@pytest.mark.parametrize(
    ("url", "path"),
    [("sqlite:///a/b.db", "a/b.db"), ("sqlite:////a/b.db", "/a/b.db"), ("sqlite:///b.db", "b.db")],
)
def test_three_slashes_are_relative_and_four_absolute(url: str, path: str) -> None:
    assert parse_address(url) == SqliteAddress(Path(path))
    assert str(parse_address(url)) == url


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg"])
def test_a_postgres_url_goes_to_asyncpg(scheme: str) -> None:
    address = parse_address(f"{scheme}://user:hunter2@host:5433/base?sslmode=require&application_name=mine")
    assert isinstance(address, PostgresAddress)
    assert str(address) == "postgresql://user:***@host:5433/base"
    place = ("host", "port", "user", "password", "database")
    assert [address.connect[name] for name in place] == ["host", 5433, "user", "hunter2", "base"]
    assert address.connect["ssl"] == "require"
    assert address.connect["server_settings"]["application_name"] == "mine"


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


def test_a_password_is_not_shown() -> None:
    address = parse_address("postgresql://user:hunter2@host/base")
    assert str(address) == "postgresql://user:***@host/base"
    assert "hunter2" not in repr(address)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql:///base", {"database": "base"}),
        ("postgresql://[::1]:5433/base", {"host": "::1", "port": 5433, "database": "base"}),
        (
            "postgresql://a%40b:p%40ss/w?rd@host/my%20base",
            {"host": "host", "user": "a@b", "password": "p@ss/w?rd", "database": "my base"},
        ),
    ],
)
def test_what_a_url_leaves_out_is_left_to_the_driver_and_what_it_escapes_is_read(
    url: str, place: dict[str, object]
) -> None:
    address = parse_address(url)
    assert isinstance(address, PostgresAddress)
    assert {name: got for name, got in address.connect.items() if name != "server_settings"} == place


@pytest.mark.parametrize(
    "url", ["postgresql://[::1]:5433/base", "postgresql://a%40b@host/base", "postgresql://host/base"]
)
def test_a_url_is_shown_as_it_was_written(url: str) -> None:
    assert str(parse_address(url)) == url
