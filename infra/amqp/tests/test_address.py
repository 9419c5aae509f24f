"""The broker's URL, taken apart."""

import ssl

import pytest

from warrener_amqp.address import parse_address, parse_addresses
from warrener_amqp.handshake import ConnectionParams, Credentials


def test_defaults_of_a_url() -> None:
    where = parse_address("amqp://localhost")
    assert (where.host, where.port, where.credentials) == ("localhost", 5672, Credentials("guest", "guest"))
    assert where.params == ConnectionParams()
    assert where.tls() is None


def test_parameters_of_a_url() -> None:
    params = "heartbeat=3&frame_max=4096&channel_max=7&name=n"
    where = parse_address(f"amqp://me:p%40ss@[::1]:99/my%2Fvhost?{params}")
    assert (where.host, where.port, where.credentials) == ("::1", 99, Credentials("me", "p@ss"))
    assert where.params == ConnectionParams("my/vhost", "n", 3, 4096, 7)
    assert where.with_name("other") == where
    assert parse_address("amqp://me:@h/").credentials == Credentials("me", ""), "an empty password is empty"
    assert parse_address("amqp://h").with_name("agent").params.name == "agent", "for operators"


def test_tls_and_certificates() -> None:
    where = parse_address("amqps://h/?auth=EXTERNAL")
    assert (where.port, where.credentials) == (5671, Credentials())
    context = where.tls()
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    trusting = parse_address("amqps://h/?no_verify_ssl=1").tls()
    assert trusting is not None
    assert trusting.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    "url",
    [
        "http://me:secret@h/",
        "amqp:///",
        "amqp://me:secret@h/?heartbeat=soon",
        "amqp://me:secret@h/?frame_max=100",
        "amqp://me:secret@h/?auth=magic",
    ],
)
def test_a_malformed_url_is_reported_without_the_password(url: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        parse_address(url)
    assert "secret" not in str(caught.value)


def test_no_representation_has_the_password() -> None:
    where = parse_address("amqp://me:secret@h/?cadata=hidden")
    assert "secret" not in f"{where!r}{where}"


def test_16_a_url_names_several_nodes_of_a_cluster() -> None:
    url = "amqp://me:p%40ss@h1:99,[::1],h3:5673/my%2Fvhost?heartbeat=3"
    found = parse_addresses(url)
    assert [(one.host, one.port) for one in found] == [("h1", 99), ("::1", 5672), ("h3", 5673)]
    assert {one.credentials for one in found} == {Credentials("me", "p@ss")}
    assert {one.params for one in found} == {ConnectionParams("my/vhost", heartbeat=3)}
    assert parse_address(url) == found[0]


@pytest.mark.parametrize("url", ["amqp://h1,,h2/", "amqp://me:secret@h1:5672,h2:port/"])
def test_16_each_host_is_checked(url: str) -> None:
    with pytest.raises(ValueError, match=r"expected|[Pp]ort") as caught:
        parse_addresses(url)
    assert "secret" not in str(caught.value)
