"""A policy chosen on the command line: read, laid over one another, and refused with the reason."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from typer.testing import Result

from warrener.errors import CommandError
from warrener.options import parse_policy_options
from warrener_client.testing import StandIn
from warrener_contracts.policy import Backoff, PolicyOverrides

Run = Callable[..., Result]


def test_without_options_there_are_no_overrides() -> None:
    assert parse_policy_options(None) is None


def test_flags_lie_over_the_json() -> None:
    text = json.dumps({"max_attempts": 2, "timeout": "30s", "backoff": {"first": "1m", "factor": 3}})
    chosen = parse_policy_options(
        text, max_attempts=8, max_age="2h", delays="5s, 1m,1h", retry_on=["requests.*"], no_retry_on=["Key*"]
    )
    assert chosen == PolicyOverrides(
        max_attempts=8,
        timeout=timedelta(seconds=30),
        max_age=timedelta(hours=2),
        backoff=Backoff(delays=(timedelta(seconds=5), timedelta(minutes=1), timedelta(hours=1))),
        retry_on=("requests.*",),
        no_retry_on=("Key*",),
    )


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        ({"text": "soon"}, "expected --policy as a JSON object, got 'soon'"),
        ({"text": "[1]"}, "expected --policy as a JSON object, got '[1]'"),
        ({"text": '{"max_attemps": 3}'}, "policy: expected parts among backoff, max_age, "),
        ({"text": '{"backoff": {"steps": 3}}'}, "policy.backoff: expected parts among delays, factor, "),
        ({"text": '{"backoff": 3}'}, "policy.backoff: Input should be a valid dictionary"),
        ({"max_attempts": 0}, "policy.max_attempts: Input should be greater than or equal to 1, got 0"),
        ({"max_age": "soon"}, "policy.max_age: expected a duration"),
        ({"delays": "1s,,1m"}, "policy.backoff.delays.1: expected a duration"),
        ({"no_retry_on": [""]}, "policy.no_retry_on.0: String should have at least 1 character, got ''"),
    ],
    ids=str,
)
def test_what_no_policy_can_be_is_refused_by_its_part(chosen: dict[str, Any], problem: str) -> None:
    text = chosen.pop("text", None)
    with pytest.raises(CommandError) as refused:
        parse_policy_options(text, **chosen)
    assert problem in refused.value.sentence
    assert refused.value.code == 2


def test_a_request_carries_what_was_chosen(run: Run, vhost_url: str, warren: StandIn) -> None:
    result = run(
        "request", "hello.greet", "name=Ada", "--wait", "--broker", vhost_url,
        "--max-attempts", "8", "--delays", "5s,1m", "--no-retry-on", "bank.*", "--no-retry-on", "KeyError",
    )  # fmt: skip
    assert result.exit_code == 0
    policy = warren.requests[0].data.policy
    assert policy is not None
    assert (policy.max_attempts, policy.no_retry_on) == (8, ("bank.*", "KeyError"))
    assert policy.backoff is not None
    assert policy.backoff.delays == (timedelta(seconds=5), timedelta(minutes=1))


def test_a_wrong_policy_is_a_wrong_use_and_nothing_is_sent(run: Run, vhost_url: str, warren: StandIn) -> None:
    result = run("request", "hello.greet", "--policy", '{"max_attemps": 3}', "--broker", vhost_url)
    assert result.exit_code == 2
    assert "got max_attemps" in " ".join(result.stderr.split())
    assert not warren.requests
