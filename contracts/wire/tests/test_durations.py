"""Durations as people write them."""

from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warrener_contracts.durations import MAX_DURATION, parse_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (90, 90),
        (0, 0),
        (0.25, 0.25),
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
        "90",
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
