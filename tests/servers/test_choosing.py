"""Tests run on what the machine has, and say what it lacks."""

import pytest
from tests.servers.choosing import CHOICE, chosen_servers, first_of
from tests.servers.debian_root import DebianServers

from warrener_devservers import ServerMissing


def lacking(what: str) -> str:
    raise ServerMissing(f"expected {what}, got none")


def test_the_first_that_is_here_is_taken_and_where_neither_is_both_are_named() -> None:
    assert first_of(lambda: "one", lambda: lacking("an engine")) == "one"
    assert first_of(lambda: lacking("programs"), lambda: "other") == "other"
    with pytest.raises(ServerMissing, match="expected programs, got none; or: expected an engine, got none"):
        first_of(lambda: lacking("programs"), lambda: lacking("an engine"))


def test_a_release_of_debian_may_be_chosen_and_a_choice_that_there_is_not_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CHOICE, "sid")
    assert chosen_servers() == DebianServers("sid")
    monkeypatch.setenv(CHOICE, "cloud")
    with pytest.raises(ValueError, match="private, containers, trixie, sid, auto, got 'cloud'"):
        chosen_servers()
