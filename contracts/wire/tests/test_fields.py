"""Fields accept values that can be stored and sent, and errors name the expected ones."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tools.reference.golden import golden_events

from warrener_contracts import events
from warrener_contracts.fields import MAX_DURATION, RESERVED_WORDS, parse_duration
from warrener_contracts.json_safety import find_unsafe_value, may_be_unsafe, sanitize_text
from warrener_contracts.registry import BY_TYPE, RELEASED


def test_every_event_of_the_wire_is_released() -> None:
    kinds = {getattr(events, name) for names in events._NAMES.values() for name in names.split()}
    assert {kind for kind in kinds if isinstance(kind, type) and issubclass(kind, events.Event)} - {
        events.Event
    } == set(RELEASED)
    assert len(BY_TYPE) == len(RELEASED)


def test_the_names_of_each_module_that_type_checkers_see_are_exported() -> None:
    for module, names in events._NAMES.items():
        found = vars(import_module(f"{events.__name__}.{module}")).values()
        own = {kind.__name__ for kind in found if isinstance(kind, type) and kind.__module__.endswith(module)}
        assert module == "envelope" or {name for name in own if name.isidentifier()} <= {*names.split()}
        kinds = [getattr(events, name) for name in names.split()]
        assert {kind.__module__.rpartition(".")[2] for kind in kinds if isinstance(kind, type)} <= {module}
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        getattr(events, "Nothing")  # noqa: B009 - type checkers know that there is none


@pytest.mark.parametrize("name", sorted(BY_TYPE))
def test_events_and_their_data_are_frozen(name: str) -> None:
    event = golden_events()[name]
    with pytest.raises(ValidationError, match="frozen"):
        event.id = "another"  # type: ignore[misc]  # the refusal is tested
    data: events.EventData = event.data
    for field in type(data).model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(data, field, None)


@pytest.mark.parametrize("name", ["flights", "flights.load", "a-b_C.9", "jobs.load", "job-2.load", "x" * 120])
def test_an_agent_may_declare_dotted_words(name: str) -> None:
    assert events.JobTypeDeclaration(name=name, arguments_schema={}).name == name


@pytest.mark.parametrize(
    "name", [*sorted(RESERVED_WORDS), "job.cancel_requested", "agent.announced", "schedule.put"]
)
def test_words_of_the_wire_are_no_job_types(name: str) -> None:
    """Their routing keys would be taken for those of Warrener's own requests."""
    with pytest.raises(ValidationError, match="choose another first word"):
        events.JobTypeDeclaration(name=name, arguments_schema={})


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a..b", "a b", "a.*", "a.#", "a\n", "é", "x" * 121])
def test_what_cannot_be_a_routing_key_is_no_job_type(name: str) -> None:
    for make in (
        lambda: events.JobRequestedData(job_type=name),
        lambda: events.JobTypeDeclaration(name=name, arguments_schema={}),
    ):
        with pytest.raises(ValidationError):
            make()


@pytest.mark.parametrize("agent_id", ["", "#", "*", "a b", "x" * 121])
def test_what_cannot_be_a_routing_key_is_no_agent(agent_id: str) -> None:
    with pytest.raises(ValidationError):
        events.AgentAnnouncedData(agent_id=agent_id, queues=(), job_types=())


def test_a_schema_that_no_database_keeps_is_refused_where_it_is_declared() -> None:
    with pytest.raises(ValidationError, match=r"properties\.x\.default"):
        events.JobTypeDeclaration(name="a", arguments_schema={"properties": {"x": {"default": float("nan")}}})


def test_times_are_written_in_utc() -> None:
    eastern = timezone(timedelta(hours=-5))
    data = events.JobRequestedData(job_type="a", not_before=datetime(2013, 1, 1, 7, tzinfo=eastern))
    assert data.not_before == datetime(2013, 1, 1, 12, tzinfo=UTC)
    assert '"not_before":"2013-01-01T12:00:00Z"' in data.model_dump_json()


@pytest.mark.parametrize(
    ("given", "accepted"),
    [
        ("00-5b8efff798038103d269b633813fc60c-eee19b7ec3c1b174-01", True),
        ("01-5b8efff798038103d269b633813fc60c-eee19b7ec3c1b174-01-more", True),
        ("00-5B8EFFF798038103D269B633813FC60C-eee19b7ec3c1b174-01", False),
        ("00-5b8e-eee1-01", False),
        ("", False),
        (17, False),
        (["00"], False),
        (None, False),
    ],
)
def test_only_a_valid_trace_context_is_accepted(given: Any, accepted: bool) -> None:  # noqa: FBT001 - a table's column
    event = events.JobRequested(
        id="1", source="s", traceparent=given, tracestate="a=1", data=events.JobRequestedData(job_type="a")
    )
    assert event.traceparent == (given if accepted else None)
    assert event.tracestate == "a=1"


def test_an_error_can_always_be_sent() -> None:
    """A handler may raise anything: file names that are no Unicode, bytes of a foreign protocol, a whole
    book."""
    error = events.ErrorInfo(
        kind=events.ErrorKind.ERROR,
        type="Odd\0",
        message="flights\udcff.csv: " + "x" * 100_000,
        stack="s" * 10**6,
    )
    assert error.type == "Odd\ufffd"
    assert error.message.startswith("flights\ufffd.csv: xxx")
    assert len(error.message) <= 4_000
    assert len(error.stack or "") <= 64_000
    assert events.ErrorInfo.model_validate_json(error.model_dump_json()) == error
    with pytest.raises(ValidationError):
        events.AttemptCancelData.model_validate(
            {"job_id": "019440f7-3a00-7c3e-8f21-5b0a4d9e6c11", "reason": 17}
        )


def test_text_is_cut_in_the_middle_where_both_ends_matter() -> None:
    assert sanitize_text("a" * 10, 10) == "a" * 10
    cut = sanitize_text("begin" + "x" * 100 + "end", 20)
    assert (cut.startswith("begin"), cut.endswith("end"), len(cut) <= 20) == (True, True, True)
    assert sanitize_text("\ud83d\ude00 \ud83d", 20) == "\U0001f600 \ufffd"


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1, {"b": float("nan")}]}, "'a.1.b'"),
        ({"a": (float("inf"),)}, "'a.0'"),
        ({"a": {"b\0": 1}}, "U+0000"),
        ([["\ud800"]], "'0.0'"),
        ("\0", "here"),
    ],
)
def test_what_nobody_can_keep_is_found_where_it_stands(value: object, where: str) -> None:
    assert where in (find_unsafe_value(value) or "")


def test_a_safe_value_is_accepted() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (None, True, 17, 1.5, "é \U0001f600", {"a": [None, {"b": ""}]}, deep):
        assert find_unsafe_value(value) is None
    assert not may_be_unsafe(b'{"path": "flights.csv"}')
    assert all(may_be_unsafe(body) for body in (b'"\\u0000"', b"[NaN]", b"[-Infinity]"))


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (90, 90),
        (0, 0),
        (0.25, 0.25),
        ("90", 90),
        ("1.5", 1.5),
        ("90s", 90),
        ("1.5s", 1.5),
        ("250ms", 0.25),
        ("2m", 120),
        ("1h30m", 5400),
        ("1d2h3m4s5ms", 93784.005),
        ("PT2M", 120),
        ("P1DT1S", 86401),
        (timedelta(seconds=7), 7),
        ("36500d", MAX_DURATION.total_seconds()),
    ],
)
def test_a_duration_is_read(written: object, seconds: float) -> None:
    assert parse_duration(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "soon",
        "2 m",
        "m",
        "1m1h",
        "-5s",
        "-PT5S",
        "\u0663s",  # a digit, but not one of ours
        -1,
        True,
        None,
        [1],
        {"seconds": 1},
        b"2m",
        float("nan"),
        float("inf"),
        10**400,
        "9" * 400 + "d",
        "0" * 1_000 + "1s",  # the cache of durations would store it
        "36501d",
        timedelta.max,
        timedelta(seconds=-1),
    ],
)
def test_anything_else_is_refused_with_what_was_expected(written: object) -> None:
    with pytest.raises(ValueError, match='such as 90, "90s", "2m", "1h30m" or "PT2M", got') as refused:
        parse_duration(written)
    assert len(str(refused.value)) < 200


@given(st.text() | st.floats() | st.integers() | st.none() | st.binary() | st.timedeltas())
def test_whatever_comes_it_is_a_duration_or_a_value_error(written: object) -> None:
    with suppress(ValueError):
        assert timedelta(0) <= parse_duration(written) <= MAX_DURATION


@given(st.timedeltas(timedelta(0), MAX_DURATION))
def test_what_is_a_duration_stays_it(span: timedelta) -> None:
    assert parse_duration(span) == span
