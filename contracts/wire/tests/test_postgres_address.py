"""One grammar for the addresses of store and ledger; and of their sessions, what gives up first."""

import socket

import pytest

from warrener_contracts.postgres_address import PostgresAddress, PostgresUrlError, parse_url, postgres_address
from warrener_contracts.postgres_limits import PEER_SETTINGS, RESPONSE_TIMEOUT, session_settings, watch_peer


def read(url: str) -> PostgresAddress:
    return postgres_address(parse_url(url))


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg"])
def test_a_url_names_server_user_and_database(scheme: str) -> None:
    address = read(f"{scheme}://user:hunter2@host:5433/base?sslmode=require&application_name=mine")
    assert str(address) == "postgresql://user:***@host:5433/base"
    assert "hunter2" not in repr(address)
    assert address.url.hosts == (("host", 5433),)
    assert address.connect == {
        "user": "user",
        "password": "hunter2",
        "database": "base",
        "dsn": "postgresql:///?sslmode=require",
    }
    assert address.application_name == "mine"


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql:///base", ()),
        ("postgresql://[::1]:5433/base", (("::1", 5433),)),
        ("postgresql://one:5433,two,[fe80::1]:5434/base", (("one", 5433), ("two", None), ("fe80::1", 5434))),
        ("postgresql://%2Frun%2Fpostgresql/base", (("/run/postgresql", None),)),
        ("postgresql://a%40b@host/base", (("host", None),)),
    ],
)
def test_servers_are_tried_in_the_order_of_the_url(
    url: str, hosts: tuple[tuple[str, int | None], ...]
) -> None:
    assert read(url).url.hosts == hosts


def test_what_is_escaped_is_read_and_a_password_may_hold_slashes() -> None:
    address = read("postgresql://a%40b:p%40ss/w?rd@host/my%20base")
    assert address.connect == {"user": "a@b", "password": "p@ss/w?rd", "database": "my base"}


def test_all_servers_together_have_the_time_of_one_unless_the_url_has_a_timeout() -> None:
    assert read("postgresql://one/base").connect_timeout == 5
    assert read("postgresql://one,two/base").connect_timeout == 2.5
    assert read("postgresql://one,two/base?connect_timeout=9").connect_timeout == 9


def test_a_server_must_take_writes_unless_the_url_accepts_any() -> None:
    assert read("postgresql://one/base").must_write
    assert read("postgresql://one/base?target_session_attrs=read-write").must_write
    assert not read("postgresql://one/base?target_session_attrs=any").must_write


def test_certificates_are_handed_to_the_driver() -> None:
    address = read("postgresql://h/base?sslmode=verify-full&sslrootcert=/ca.pem&sslcert=/c.pem&sslkey=/k.pem")
    assert address.connect["dsn"] == (
        "postgresql:///?sslmode=verify-full&sslrootcert=%2Fca.pem&sslcert=%2Fc.pem&sslkey=%2Fk.pem"
    )
    assert address.files == {"sslrootcert": "/ca.pem", "sslcert": "/c.pem", "sslkey": "/k.pem"}


@pytest.mark.parametrize(
    ("url", "because"),
    [
        ("base", "another form"),
        ("postgresql://user:hunter2@host", "name the database"),
        ("postgresql://user:hunter2@host:port/base", "another form"),
        ("postgresql://user:hunter2@one,,two/base", "another form"),
        ("postgresql://user:hunter2@host/base?pool=9", "got pool; leave it out"),
        ("postgresql://user:hunter2@host/base?sslmode=always", "got always; correct it"),
        ("postgresql://user:hunter2@host/base?sslrootcert=/ca.pem", "got none; add it"),
        ("postgresql://user:hunter2@host/base?sslmode=prefer&sslcert=/c.pem", "got prefer; add it"),
        ("postgresql://user:hunter2@host/base?target_session_attrs=standby", "got standby; correct it"),
        ("postgresql://user:hunter2@host/base?connect_timeout=0", "got '0'; correct it"),
        ("postgresql://user:hunter2@host/base?connect_timeout=2s", "got '2s'; correct it"),
    ],
)
def test_a_bad_url_is_refused_with_what_was_expected(url: str, because: str) -> None:
    with pytest.raises(PostgresUrlError, match="expected") as refusal:
        read(url)
    assert because in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    "url", ["postgresql://[::1]:5433,b/base", "postgresql://a%40b@host/base", "postgresql://host/base"]
)
def test_a_url_is_shown_as_it_was_written(url: str) -> None:
    assert str(read(url)) == url


def test_each_wait_of_a_session_ends_before_its_client_gives_up() -> None:
    assert session_settings(lock=0.3, statement=6, idle_transaction=5) == {
        **PEER_SETTINGS,
        "lock_timeout": "0.3s",
        "statement_timeout": "6s",
        "idle_in_transaction_session_timeout": "5s",
    }


@pytest.mark.parametrize(("lock", "statement"), [(3, 3), (3, RESPONSE_TIMEOUT), (0, 7)])
def test_limits_in_another_order_are_refused(lock: float, statement: float) -> None:
    with pytest.raises(ValueError, match="expected lock < statement < 8 seconds"):
        session_settings(lock=lock, statement=statement, idle_transaction=5)


def test_a_socket_watches_its_peer_where_there_is_a_network() -> None:
    with socket.socket(socket.AF_INET) as tcp:
        watch_peer(tcp)
        assert tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    with socket.socket(socket.AF_UNIX) as local:
        watch_peer(local)
        assert local.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0
    watch_peer(None)
