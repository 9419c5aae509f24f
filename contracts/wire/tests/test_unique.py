"""Unique jobs: what is declared, and the keys."""

from datetime import timedelta
from typing import Any

import pytest

from warrener_contracts.policy import JobPolicy
from warrener_contracts.templates import TemplateError
from warrener_contracts.unique import (
    Debounce,
    OnRepeat,
    Unique,
    UniqueUntil,
    debounce,
    find_unique_mistake,
    unique_key,
)

INDEX = Unique("{{ arguments.index }}")


def test_until_follows_from_the_repeat_unless_it_is_given() -> None:
    assert (INDEX.until, INDEX.repeat, INDEX.wait) == (UniqueUntil.FINISHED, OnRepeat.REJECT, timedelta(0))
    assert Unique(repeat="first").until is UniqueUntil.FINISHED
    assert Unique(repeat="replace").until is UniqueUntil.DISPATCHED
    assert Unique(repeat="replace", until="finished").until is UniqueUntil.FINISHED
    waits = Unique(repeat=debounce("5s", longest="1m"))
    assert (waits.until, waits.repeat, waits.wait.seconds) == (UniqueUntil.DISPATCHED, OnRepeat.REPLACE, 5)
    assert waits.debounce == Debounce(wait=timedelta(seconds=5), longest=timedelta(minutes=1))


@pytest.mark.parametrize(
    "unique", [INDEX, Unique(window="1h"), Unique(repeat=debounce("5s", longest="1m"), until="finished")]
)
def test_a_policy_comes_over_the_wire_as_it_was_declared(unique: Unique) -> None:
    policy = JobPolicy(unique=unique)
    assert JobPolicy.model_validate_json(policy.model_dump_json()) == policy
    assert "unique" not in JobPolicy().model_dump_json()


@pytest.mark.parametrize(
    "wrong",
    [{"until": "started"}, {"repeat": "last"}, {"window": "0s"}, {"key": "x" * 501}, {"window": "soon"}],
)
def test_what_nobody_can_mean_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected a key of at most 500 characters, until dispatched or"):
        Unique(**wrong)


def test_only_what_replaces_can_wait() -> None:
    with pytest.raises(ValueError, match="expected a key"):
        Unique.model_validate({"repeat": "first", "debounce": {"wait": "1s", "longest": "2s"}})


def test_keys_are_apart_by_type_and_by_what_the_template_becomes() -> None:
    assert unique_key("search.reindex", INDEX, {"index": "a", "more": 1}) == "search.reindex/a"
    every = Unique()
    assert unique_key("t", every, {"b": [1], "a": "é"}) == unique_key("t", every, {"a": "é", "b": [1]})
    assert unique_key("t", every, {"a": 1}) != unique_key("t", every, {"a": 2})
    long = [unique_key("t", INDEX, {"index": "x" * 300 + end}) for end in ("a", "b", "#")]
    assert len({*long}) == 3
    assert {len(key) for key in long} == {200}
    assert unique_key("t", INDEX, {"index": long[0].removeprefix("t/")}) != long[0]


def test_a_key_names_parameters_that_each_request_gives() -> None:
    with pytest.raises(TemplateError, match=r"arguments\.index"):
        unique_key("t", INDEX, {})
    assert find_unique_mistake(None, []) is None
    assert find_unique_mistake(INDEX, ["index"]) is None
    assert "name parameters without a default" in (find_unique_mistake(INDEX, ["other"]) or "")
