"""The template language of schedules, escalation policies and programs."""

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warrener_contracts import templates

NOON = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
VALUES = {
    "run": 7,
    "name": "nightly",
    "yes": True,
    "half": 0.5,
    "none": None,
    "at": NOON.astimezone(timezone(timedelta(hours=1))),
    "files": ["a.csv", None],
    "error": {"type": "Boom", "base_classes": ("A", "B")},
}
KNOWN = templates.TemplateNames(("run", "name", "at", "error", "error.type", "arguments.*"), times=("at",))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
BRACES = st.text(st.sampled_from("{}| a.%Y\0\n"), max_size=40)


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        ("{{ run }}", 7),
        ("{{run}}", 7),
        ("{{ none }}", None),
        ("{{ yes }}", True),
        ("{{ half }}", 0.5),
        ("{{ files }}", ["a.csv", None]),
        ("{{ error.type }}", "Boom"),
        ("{{ at }}", "2026-01-01T13:30:00+01:00"),
        ("{{ at | %Y/%m/%d %H:%M }}.csv", "2026/01/01 13:30.csv"),
        ("{{ at | %-d }}", "1"),
        ("{{ none | %Y }}", None),
        ("run {{ run }} of {{ name }}, after {{ none }}", "run 7 of nightly, after "),
        ("{{ yes }} {{ half }} {{ files }}", 'true 0.5 ["a.csv", null]'),
        ("{{ name }}: {{ error }}", 'nightly: {"type": "Boom", "base_classes": ["A", "B"]}'),
        ("{{ at }}: {{ none | %Y }}", "2026-01-01T13:30:00+01:00: "),
        ("{{{{ name }} {{ run }}", "{{ name }} 7"),
        ("{{{ run }}}", "{7}"),
        ("{{{{{{ run }}}}", "{{7}}"),
        ("{{{{{{{ run }}", "{{{7"),
        ("{ run } }} {name}", "{ run } }} {name}"),
        ({"a": [{"b": "{{ run }}"}, 2], "{{ run }}": True}, {"a": [{"b": 7}, 2], "{{ run }}": True}),
    ],
)
def test_a_placeholder_becomes_its_value(template: Any, rendered: Any) -> None:
    assert templates.render(template, VALUES) == rendered


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (False, "false"),
        (-3, "-3"),
        (1.5, "1.5"),
        ("ä", "ä"),
        (Colour.RED, "red"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(6, 5), "06:05:00"),
        (NOON, "2026-01-01T12:30:00+00:00"),
        (Decimal("1.50"), "1.50"),
        (PurePosixPath("/a b"), "/a b"),
        ({"ä": [NOON, Decimal(2)]}, '{"ä": ["2026-01-01T12:30:00+00:00", "2"]}'),
    ],
)
def test_the_text_of_a_value(value: Any, text: str) -> None:
    assert templates.to_text(value) == text


@pytest.mark.parametrize(
    ("template", "mistake"),
    [
        ("{{ rum }}", "expected one of run, name, at, error, error.type, arguments.*, got '{{ rum }}'"),
        ({"a": ["{{ arguments }}"]}, "expected one of run"),
        ("{{ name.__class__ }}", "expected one of run"),
        ("{{ run.real }}", "expected one of run"),
        ("{{ 1 + 1 }}", "expected a name such as {{ run }}, got '{{ 1 + 1 }}'; write {{{{ for two braces"),
        ("{{ run() }}", "expected a name such as"),
        ("{{ error['type'] }}", "expected a name such as"),
        ("{{}}", "expected a name such as"),
        ("{% if run %}{{ run", "expected }} after {{, got '{{ run'; write {{{{ for two braces"),
        ("{{ a { b }}", "expected }} after {{"),
        ("{{ at | }}", "expected a format such as %Y-%m-%d of at most 100 characters after |"),
        ("{{ at | upper }}", "expected a format such as"),
        ("{{ at | %999999999Y }}", "expected a format such as"),
        ("{{ at | %s }}", "expected a format such as"),
        ("{{ at | %Y% }}", "expected a format such as"),
        ("{{ at | %Y" + "-" * 100 + " }}", "expected a format such as"),
        ("{{ run | %Y }}", "expected a format only after at, got '{{ run | %Y }}'; leave it out"),
    ],
)
def test_a_mistake_names_the_expected(template: Any, mistake: str) -> None:
    (found,) = templates.find_mistakes(template, KNOWN)
    assert found.startswith(mistake)


@pytest.mark.parametrize(
    "template",
    [7, "plain", "{run}", "{{ run }}", "{{ arguments.a.b }}", "{{{{ 1 + 1 }}", "{{ at | %d.%m.%Y %% }}"],
)
def test_what_is_right_has_no_mistake(template: Any) -> None:
    assert list(templates.find_mistakes(template, KNOWN)) == []


def test_mistakes_are_as_many_as_people_read() -> None:
    assert len(list(templates.find_mistakes(["{{ x }}"] * 50, KNOWN))) == 20
    assert len(list(templates.find_mistakes("{{ run }}" * templates.MAX_PLACEHOLDERS, KNOWN))) == 0
    (found,) = templates.find_mistakes("{{ run }}" * (templates.MAX_PLACEHOLDERS + 1), KNOWN)
    assert found == "expected at most 1000 names in braces, got more"


def test_where_nothing_is_known_no_name_is_expected() -> None:
    (found,) = templates.find_mistakes("{{ run }}", templates.TemplateNames(()))
    assert found == "expected no name, got '{{ run }}'"


def test_a_name_without_a_value_is_an_error_unless_the_caller_has_a_text_for_it() -> None:
    with pytest.raises(templates.TemplateError, match=r"expected a value of error\.kind, got none"):
        templates.render("{{ error.kind }}", VALUES)
    assert (
        templates.render("{{ error.kind }}!", VALUES, missing=lambda one: f"(no {one.name})")
        == "(no error.kind)!"
    )
    assert templates.render("{{ x | %Y }}", {}, missing=lambda one: one.source) == "{{ x | %Y }}"


def test_a_format_needs_a_time() -> None:
    with pytest.raises(
        templates.TemplateError, match=r"expected a time before \| in '{{ run \| %Y }}', got int"
    ):
        templates.render("{{ run | %Y }}", VALUES)


@pytest.mark.parametrize(
    "many", ["{{ text }}" * 10, ["{{ text }}"] * 10, "{{ list }}" * 3, ["{{ list }}"] * 3]
)
def test_values_that_are_too_long_together_are_refused(many: Any) -> None:
    values = {"text": "x" * (templates.MAX_INSERTED // 9), "list": ["y"] * (templates.MAX_INSERTED // 12)}
    with pytest.raises(templates.TemplateError, match="characters together"):
        templates.render(many, values)


def test_the_placeholders_of_a_value_are_listed() -> None:
    found = [*templates.placeholders_in({"a": ["{{ run }} {{ at | %Y }}", "{{{{ x }}"], "b": "{{ name }}"})]
    assert [(one.name, one.time_format) for one in found] == [("run", None), ("at", "%Y"), ("name", None)]


@given(JSON)
def test_an_escaped_value_renders_as_it_was(value: Any) -> None:
    escaped = templates.escape_placeholders(value)
    assert templates.render(escaped, {}) == value
    assert list(templates.find_mistakes(escaped, templates.TemplateNames(()))) == []


@given(BRACES, BRACES)
def test_escaped_text_around_a_placeholder_stays_as_it_was(before: str, after: str) -> None:
    template = f"{templates.escape_placeholders(before)}{{{{ run }}}}{templates.escape_placeholders(after)}"
    assert list(templates.find_mistakes(template, KNOWN)) == []
    rendered = templates.render(template, VALUES)
    assert rendered == (f"{before}7{after}" if before or after else 7)


@given(BRACES)
def test_any_text_is_split_without_loss(text: str) -> None:
    parts = templates.split_text(text)
    again = "".join(part if isinstance(part, str) else part.source for part in parts)
    assert again == text.replace("{{{{", "{{")
    assert templates.has_placeholders(text) or parts == ([text] if text else [])


@given(BRACES)
def test_what_has_no_mistake_renders(text: str) -> None:
    known = templates.TemplateNames(("a", "a.a"), times=("a",))
    if not list(templates.find_mistakes(text, known)):
        templates.render(text, {"a": NOON}, missing=lambda _: "")


class Account:
    a = Y = "secret"

    def __str__(self) -> str:
        return "account"


@given(BRACES.map(lambda inner: f"{{{{ a.{inner} }}}} {{{{ a }}}}"))
def test_no_name_reads_an_attribute_or_calls_code(text: str) -> None:
    try:
        rendered = templates.render(text, {"a": Account()}, missing=lambda _: "")
    except templates.TemplateError as error:
        assert "expected a time before |" in str(error)  # noqa: PT017 - most texts raise nothing
    else:
        assert "secret" not in rendered


@given(JSON)
def test_a_value_alone_is_the_value_itself_and_within_a_text_is_json(value: Any) -> None:
    assert templates.render("{{ a }}", {"a": value}) == value
    text = templates.render("{{ a }}!", {"a": value}).removesuffix("!")
    if value is None or isinstance(value, str):
        assert text == (value or "")
    else:
        assert json.loads(text) == value
