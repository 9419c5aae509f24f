"""From the protocol header to an open connection, and every way in which the broker says no."""

from typing import Any

import pytest
from infra.amqp.tests.broker_side import CAPABILITIES, START, TUNE, failure, method, opened, sent
from pamqp import commands

from warrener_amqp.connection import Connection
from warrener_amqp.errors import AuthenticationRefused, ConnectionLost, FrameMalformed, ProtocolViolated
from warrener_amqp.events import Closed, ConnectionFailed, Opened
from warrener_amqp.handshake import ConnectionParams, Credentials


def client(password: str = "b", **params: Any) -> Connection:
    return Connection(Credentials("a", password), ConnectionParams(**params))


def test_it_agrees_on_the_smaller_limits() -> None:
    core = client("secret", virtual_host="jobs", heartbeat=10, frame_max=50_000, name="me")
    assert core.data_to_send() == [b"AMQP\x00\x00\x09\x01"]
    assert core.receive(method(0, START)) == []
    (start_ok,) = sent(core)
    assert isinstance(start_ok, commands.Connection.StartOk)
    assert (start_ok.mechanism, start_ok.response) == ("PLAIN", "\0a\0secret")
    assert start_ok.client_properties is not None
    assert start_ok.client_properties["connection_name"] == "me"
    core.receive(method(0, TUNE))
    tune_ok, opening = sent(core)
    assert isinstance(tune_ok, commands.Connection.TuneOk)
    assert (tune_ok.heartbeat, tune_ok.frame_max, tune_ok.channel_max) == (10, 50_000, 2047)
    assert isinstance(opening, commands.Connection.Open)
    assert opening.virtual_host == "jobs"
    (event,) = core.receive(method(0, commands.Connection.OpenOk()))
    assert event == Opened(10, 50_000, 2047, {"capabilities": CAPABILITIES})


def test_no_limit_on_one_side_is_the_limit_of_the_other() -> None:
    core = client(heartbeat=0, channel_max=100)
    core.receive(method(0, START))
    core.receive(method(0, commands.Connection.Tune(0, 0, 0)))
    (event,) = core.receive(method(0, commands.Connection.OpenOk()))
    assert isinstance(event, Opened)
    assert (event.heartbeat, event.frame_max, event.channel_max) == (0, 131_072, 100)


def test_the_certificate_identifies_us() -> None:
    core = Connection(Credentials())
    core.data_to_send()
    core.receive(method(0, commands.Connection.Start(0, 9, {}, "PLAIN EXTERNAL", "en_US")))
    (start_ok,) = sent(core)
    assert isinstance(start_ok, commands.Connection.StartOk)
    assert (start_ok.mechanism, start_ok.response) == ("EXTERNAL", "")


def test_a_mechanism_that_the_broker_does_not_know() -> None:
    start = commands.Connection.Start(0, 9, {}, "EXTERNAL", "en_US")
    error = failure(client().receive(method(0, start)))
    assert isinstance(error, AuthenticationRefused)
    assert "EXTERNAL" in str(error)


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (403, "ACCESS_REFUSED - Login was refused", AuthenticationRefused),
        (530, "NOT_ALLOWED - vhost jobs not found", AuthenticationRefused),
        (530, "NOT_ALLOWED - access to vhost 'jobs' refused for user 'x'", AuthenticationRefused),
        (530, "NOT_ALLOWED - connection limit (1) is reached", ConnectionLost),
        (320, "CONNECTION_FORCED - broker forced connection closure", ConnectionLost),
        (541, "INTERNAL_ERROR", ConnectionLost),
    ],
)
@pytest.mark.parametrize("stage", ["after the credentials", "after the virtual host"])
def test_permanent_refusals_are_distinguished(
    stage: str, code: int, reason: str, kind: type[Exception]
) -> None:
    core = client()
    core.receive(method(0, START))
    if stage == "after the virtual host":
        core.receive(method(0, TUNE))
    core.data_to_send()
    events = core.receive(method(0, commands.Connection.Close(code, reason, 0, 0)))
    assert type(failure(events)) is kind
    assert str(code) in str(failure(events))
    assert isinstance(sent(core)[-1], commands.Connection.CloseOk)
    assert core.closed
    assert core.receive_eof() == [], "it was reported already"


def test_a_broker_without_refusal_support_closes_the_connection() -> None:
    mute = client()
    mute.receive(method(0, commands.Connection.Start(0, 9, {}, "PLAIN", "en_US")))
    assert isinstance(failure(mute.receive_eof()), AuthenticationRefused)
    restarting = client()
    restarting.receive(method(0, START))
    assert isinstance(failure(restarting.receive_eof()), ConnectionLost)


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (b"AMQP\x00\x01\x00\x00", FrameMalformed, "speaks 1.0.0"),
        (b"HTTP/1.1 400 Bad Request\r\n", FrameMalformed, "AMQP port"),
        (method(0, TUNE), ProtocolViolated, "Connection.Start"),
        (method(0, commands.Connection.OpenOk()), ProtocolViolated, "Connection.Start"),
        (method(1, START), ProtocolViolated, "open channels"),
        (method(0, commands.Connection.Unblocked()), ProtocolViolated, "Connection.Start"),
    ],
)
def test_who_answers_something_else_is_no_broker(answer: bytes, kind: type[Exception], message: str) -> None:
    error = failure(client().receive(answer))
    assert type(error) is kind
    assert message in str(error)


def test_a_goodbye_before_the_end_of_the_handshake_is_silent() -> None:
    core = client()
    core.data_to_send()
    core.close()
    assert core.closed
    assert core.data_to_send() == []
    assert core.receive(method(0, START)) == []


def test_closing_is_agreed_upon_once() -> None:
    core = opened(channels=0)
    core.close()
    core.close()
    assert [type(what) for what in sent(core)] == [commands.Connection.Close]
    assert core.receive(method(0, commands.Connection.CloseOk())) == [Closed()]
    assert core.receive_eof() == []
    with pytest.raises(ConnectionLost, match="closed"):
        core.open_channel()


def test_a_broker_that_closes_while_we_do_is_answered() -> None:
    core = opened(channels=0)
    core.close()
    core.data_to_send()
    (event,) = core.receive(method(0, commands.Connection.Close(320, "CONNECTION_FORCED", 0, 0)))
    assert isinstance(event, ConnectionFailed)
    assert isinstance(sent(core)[0], commands.Connection.CloseOk)
