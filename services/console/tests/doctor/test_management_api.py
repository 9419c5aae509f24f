"""The management API: where it is, what it says, and what its refusals mean; pure."""

import json

import pytest

from warrener.context import pick_endpoints, resolve_endpoints
from warrener.doctor.management_api import (
    BindingsUnavailable,
    ManagementApi,
    explain_refusal,
    parse_bindings,
    resolve_management_api,
)
from warrener.doctor.topology import check_same_broker, compare_bindings, dispatch_queues
from warrener.errors import CommandError
from warrener.settings import CommandSettings
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


def test_it_is_beside_the_broker_and_used_as_the_brokers_user() -> None:
    assert resolve_management_api("amqp://ann:p%40ss@rabbit:5673/shop%2Feu?heartbeat=5") == ManagementApi(
        "http://rabbit:15672", "ann", "p@ss", "shop/eu", "amqp://ann:p%40ss@rabbit:5673/shop%2Feu?heartbeat=5"
    )
    assert resolve_management_api("amqps://rabbit").url == "https://rabbit:15671"
    assert resolve_management_api("amqp://[::1]").url == "http://[::1]:15672"
    assert resolve_management_api("amqp://rabbit/").virtual_host == "/"


def test_a_url_names_where_it_is_and_the_user() -> None:
    api = resolve_management_api("amqp://ann:secret@rabbit/shop", "https://ops:o%2Fps@front:8443/rabbit/")
    assert (api.url, api.user, api.password) == ("https://front:8443/rabbit", "ops", "o/ps")
    assert api.virtual_host == "shop"
    assert resolve_management_api("amqp://ann:secret@rabbit", "http://front").user == "ann"
    assert "o/ps" not in repr(api)
    assert "secret" not in repr(api)


def test_the_setting_speaks_of_the_brokers_that_are_named_and_not_of_the_private_one_of_up() -> None:
    up = Endpoints("amqp://up/", "sqlite:///up.db", "sqlite:///up-ledger.db")
    settings = CommandSettings(broker_url="amqp://set/", management_url="http://set:15672")
    assert pick_endpoints(None, None, None, settings).management_url == "http://set:15672"
    assert pick_endpoints("amqp://said/", None, up, settings).management_url == "http://set:15672"
    assert pick_endpoints(None, None, up, settings).management_url is None
    assert pick_endpoints(None, None, up, settings, "http://said").management_url == "http://said"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("url", ["rabbit:15672", "amqp://rabbit", "http://", "http://rabbit:port"])
def test_a_url_that_is_none_is_a_usage_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="--management: expected a URL like http://host:15672, got"):
        resolve_endpoints(management=url)
    monkeypatch.setenv("WARRENER_MANAGEMENT_URL", url)
    with pytest.raises(CommandError, match="WARRENER_MANAGEMENT_URL: expected a URL like http://host:15672"):
        resolve_endpoints()


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
def test_each_refusal_shows_the_reason_and_what_to_do(code: int, body: bytes, why: str, do: str) -> None:
    result = explain_refusal(resolve_management_api("amqp://ann:secret@rabbit/shop"), code, body)
    assert why in result.why
    assert do in result.do
    assert "secret" not in result.why + result.do


def listed(queue: str, *bound: Binding) -> list[dict[str, str]]:
    """As the API lists them, with the broker's own binding of every queue."""
    return [
        {"source": each.exchange, "destination": queue, "destination_type": "queue", "routing_key": each.key}
        for each in (Binding("", queue), *bound)
    ]


def test_what_is_missing_and_what_is_strange() -> None:
    etl = dispatch_queue("etl")
    strange = Binding(EVENTS, "x.#")
    seen = parse_bindings(
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
    found = compare_bindings([REQUESTS_QUEUE, STATUS_QUEUE, etl], ALL, seen)
    assert [(each.what, each.how, each.status) for each in found] == [
        ("binding warrener.requests # → warrener.requests", "is missing", "error"),
        ("binding warrener.events x.# → warrener.status", "is none of ours", "warning"),
        ("binding warrener.return *.etl.# → warrener.queue.etl", "is missing", "error"),
    ]
    assert "--declare" in (found[0].do or "")
    assert "agent of 'etl'" in (found[2].do or "")
    without = compare_bindings([REQUESTS_QUEUE, etl], ALL - {REQUESTS, RETURN}, seen)
    assert without == []  # the exchanges are reported as missing already


def test_what_schedules_wait_for_is_passed_over() -> None:
    seen = parse_bindings(json.dumps(listed(TRIGGERS_QUEUE.name, Binding("airport", "landed.*"))).encode())
    assert compare_bindings([TRIGGERS_QUEUE], ALL, seen) == []


def test_the_api_of_another_broker_is_not_compared_with() -> None:
    management = resolve_management_api("amqp://rabbit")
    with pytest.raises(BindingsUnavailable, match="that of another broker"):
        check_same_broker(management, [REQUESTS_QUEUE], {"theirs": frozenset()})
