"""The management API: where it is, what it says, and what its refusals mean; pure."""

import json

import pytest

from warrener.drift import binding_differences, dispatch_queues, of_this_broker
from warrener.exits import CommandError
from warrener.management import Management, NotCompared, bindings_in, management_of, refusal
from warrener.places import CommandSettings, decide, find_places
from warrener.up.folder import Endpoints
from warrener_contracts.topology import (
    DISPATCH,
    EVENTS,
    EXCHANGES,
    REQUESTS,
    REQUESTS_QUEUE,
    RETURN,
    STATUS_QUEUE,
    TRIGGERS_QUEUE,
    Binding,
    dispatch_queue,
)

ALL = {exchange.name for exchange in EXCHANGES}


def test_it_is_beside_the_broker_and_asked_as_the_brokers_user() -> None:
    assert management_of("amqp://ann:p%40ss@rabbit:5673/shop%2Feu?heartbeat=5") == Management(
        "http://rabbit:15672", "ann", "p@ss", "shop/eu", "amqp://ann:p%40ss@rabbit:5673/shop%2Feu?heartbeat=5"
    )
    assert management_of("amqps://rabbit").url == "https://rabbit:15671"
    assert management_of("amqp://[::1]").url == "http://[::1]:15672"
    assert management_of("amqp://rabbit/").virtual_host == "/"


def test_or_where_and_as_whom_it_is_said() -> None:
    said = management_of("amqp://ann:secret@rabbit/shop", "https://ops:o%2Fps@front:8443/rabbit/")
    assert (said.url, said.user, said.password) == ("https://front:8443/rabbit", "ops", "o/ps")
    assert said.virtual_host == "shop"
    assert management_of("amqp://ann:secret@rabbit", "http://front").user == "ann"
    assert "o/ps" not in repr(said)
    assert "secret" not in repr(said)


def test_the_setting_speaks_of_the_brokers_that_are_named_and_not_of_the_private_one_of_up() -> None:
    up = Endpoints("amqp://up/", "sqlite:///up.db", "sqlite:///up-ledger.db")
    settings = CommandSettings(broker_url="amqp://set/", management_url="http://set:15672")
    assert decide(None, None, None, settings).management_url == "http://set:15672"
    assert decide("amqp://said/", None, up, settings).management_url == "http://set:15672"
    assert decide(None, None, up, settings).management_url is None
    assert decide(None, None, up, settings, "http://said").management_url == "http://said"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("url", ["rabbit:15672", "amqp://rabbit", "http://", "http://rabbit:port"])
def test_a_url_that_is_none_is_a_usage_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="--management: expected a URL like http://host:15672, got"):
        find_places(management=url)
    monkeypatch.setenv("WARRENER_MANAGEMENT_URL", url)
    with pytest.raises(CommandError, match="WARRENER_MANAGEMENT_URL: expected a URL like http://host:15672"):
        find_places()


@pytest.mark.parametrize(
    ("code", "body", "why", "do"),
    [
        (
            401,
            b'{"reason": "Not management user"}',
            "user 'ann' see virtual host 'shop' (401: Not",
            "set_user_tags ann",
        ),
        (404, b"", "knows no virtual host 'shop', or is no management API", "correct --management"),
        (503, b"<html>", "expected bindings from http://rabbit:15672, got 503", "log"),
        (302, b"[]", "got 302", "correct --management"),
    ],
)
def test_each_refusal_says_why_and_what_to_do(code: int, body: bytes, why: str, do: str) -> None:
    told = refusal(management_of("amqp://ann:secret@rabbit/shop"), code, body)
    assert why in told.why
    assert do in told.do
    assert "secret" not in told.why + told.do


def listed(queue: str, *bound: Binding) -> list[dict[str, str]]:
    """As the API lists them, with the broker's own binding of every queue."""
    return [
        {"source": each.exchange, "destination": queue, "destination_type": "queue", "routing_key": each.key}
        for each in (Binding("", queue), *bound)
    ]


def test_what_is_missing_and_what_is_strange() -> None:
    etl = dispatch_queue("etl")
    strange = Binding(EVENTS, "x.#")
    seen = bindings_in(
        json.dumps(
            [
                *listed(REQUESTS_QUEUE.name),
                *listed(STATUS_QUEUE.name, *STATUS_QUEUE.bindings, strange),
                *listed(etl.name, Binding(DISPATCH, "etl.#")),
                {
                    "source": EVENTS,
                    "destination": "others",
                    "destination_type": "exchange",
                    "routing_key": "#",
                },
            ]
        ).encode()
    )
    assert dispatch_queues(seen) == (etl,)
    found = binding_differences([REQUESTS_QUEUE, STATUS_QUEUE, etl], ALL, seen)
    assert [(each.what, each.how, each.health) for each in found] == [
        ("binding warrener.requests # → warrener.requests", "is missing", "wrong"),
        ("binding warrener.events x.# → warrener.status", "is none of ours", "odd"),
        ("binding warrener.return *.etl.# → warrener.queue.etl", "is missing", "wrong"),
    ]
    assert "--declare" in (found[0].do or "")
    assert "agent of 'etl'" in (found[2].do or "")
    without = binding_differences([REQUESTS_QUEUE, etl], ALL - {REQUESTS, RETURN}, seen)
    assert without == []  # the exchanges are told as missing already


def test_what_schedules_wait_for_is_passed_over() -> None:
    seen = bindings_in(json.dumps(listed(TRIGGERS_QUEUE.name, Binding("airport", "landed.*"))).encode())
    assert binding_differences([TRIGGERS_QUEUE], ALL, seen) == []


def test_the_api_of_another_broker_is_not_compared_with() -> None:
    management = management_of("amqp://rabbit")
    with pytest.raises(NotCompared, match="that of another broker"):
        of_this_broker(management, [REQUESTS_QUEUE], {"theirs": frozenset()})
