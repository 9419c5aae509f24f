"""The language of conditions: paths and comparisons of JSON with JSON."""

from typing import Any

import pytest
from pydantic import ValidationError

from warrener_contracts.triggers import Condition
from warrener_scheduler.decisions.triggers import passes

EVENT = {
    "type": "landed",
    "data": {"rows": 10, "late": 0.5, "ok": True, "none": None, "legs": [{"to": "JFK"}], "at": "2026-01-02"},
}


@pytest.mark.parametrize(
    ("path", "check", "value", "holds"),
    [
        ("data.rows", "equals", 10, True),
        ("data.rows", "equals", 10.0, True),
        ("data.rows", "equals", "10", False),
        ("data.ok", "equals", 1, False),
        ("data.ok", "equals", True, True),
        ("data.none", "equals", None, True),
        ("data.missing", "equals", None, False),
        ("data.legs.0.to", "equals", "JFK", True),
        ("data.legs.1.to", "equals", "JFK", False),
        ("data.legs.-1.to", "equals", "JFK", False),
        ("data.legs", "equals", [{"to": "JFK"}], True),
        ("data.rows.0", "exists", None, False),
        ("data.rows", "differs", 11, True),
        ("data.missing", "differs", 11, True),
        ("data.none", "exists", None, True),
        ("data.missing", "exists", None, False),
        ("data.missing", "absent", None, True),
        ("type", "absent", None, False),
        ("type", "one_of", ["started", "landed"], True),
        ("data.ok", "one_of", [1, 0], False),
        ("data.rows", "more", 9, True),
        ("data.rows", "more", 10, False),
        ("data.rows", "at_least", 10, True),
        ("data.late", "less", 1, True),
        ("data.late", "at_most", 0.5, True),
        ("data.at", "more", "2026-01-01", True),
        ("data.at", "more", 2026, False),
        ("data.ok", "at_least", 0, False),
        ("data.missing", "less", 1, False),
    ],
)
def test_one_condition(path: str, check: str, value: Any, *, holds: bool) -> None:
    condition = Condition.model_validate({"path": path, "check": check, "value": value})
    assert passes(EVENT, [condition]) is holds


def test_all_of_them_must_hold_and_none_is_none() -> None:
    good, bad = Condition(path="type", value="landed"), Condition(path="type", value="started")
    assert passes(EVENT, [])
    assert passes(EVENT, [good, good])
    assert not passes(EVENT, [good, bad])


@pytest.mark.parametrize(
    "wrong",
    [
        {"path": "data..rows"},
        {"path": "data rows"},
        {"path": "a", "check": "less", "value": True},
        {"path": "a", "check": "more"},
        {"path": "a", "check": "one_of", "value": "DE"},
        {"path": "a", "check": "one_of", "value": []},
        {"path": "a", "check": "exists", "value": 1},
        {"path": "a", "value": "\0"},
        {"path": "a", "check": "matches", "value": ".*"},
    ],
)
def test_what_is_no_condition_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Condition.model_validate(wrong)
