"""Urls of stores are read, or refused with the expected form."""

from pathlib import Path

import pytest

from warrener_contracts.postgres_address import PostgresAddress
from warrener_store import open_store
from warrener_store.databases.address import SqliteAddress, StoreUrlError, parse_address, server_settings


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
