"""Edits of arguments are JSON merge patches: the examples are those of RFC 7396 that are objects."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warrener_scheduler.decisions.dead_letters import merge_patch

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.text(max_size=2), VALUES, max_size=4)


@pytest.mark.parametrize(
    ("arguments", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_standard(
    arguments: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert merge_patch(arguments, patch) == expected


@given(OBJECTS, OBJECTS)
def test_what_is_patched_twice_is_patched_once(arguments: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge_patch(arguments, patch)
    assert merge_patch(once, patch) == once
    assert merge_patch(arguments, {}) == arguments
