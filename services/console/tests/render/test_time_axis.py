"""Long waits are folded, and nothing else is moved."""

from datetime import datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.store_rows import NOON, after

from warrener.render.time_axis import FOLD_FACTOR, FoldedAxis, TimeSpan, fold_waits


def span_of(start: float, end: float, text: str = "") -> TimeSpan:
    return TimeSpan(after(start), after(end), text)


def test_a_wait_longer_than_five_times_the_work_is_folded() -> None:
    axis = fold_waits(
        NOON,
        after(900),
        [span_of(2, 6, "queue"), span_of(10, 850, "retry delay")],
        [span_of(6, 10), span_of(850, 852)],
    )
    assert axis.folds == (span_of(10, 850, "14 min retry delay"),)
    before, behind = axis.position(after(10)), axis.position(after(850))
    assert behind - before < 0.13
    assert axis.position(after(4)) - axis.position(after(2)) > 0.02


def test_work_within_a_wait_and_the_present_are_never_folded() -> None:
    axis = fold_waits(NOON, after(1000), [span_of(0, 1000, "delay")], [span_of(400, 401)], [after(700)])
    assert [(fold.start, fold.end) for fold in axis.folds] == [
        (NOON, after(400)),
        (after(401), after(700)),
        (after(700), after(1000)),
    ]


def test_without_work_nothing_is_folded() -> None:
    assert fold_waits(NOON, after(1e6), [span_of(0, 1e6)], []).folds == ()


moments = st.floats(0, 1e7).map(after)
spans = st.tuples(moments, moments).map(lambda pair: TimeSpan(min(pair), max(pair), "wait"))


@given(st.lists(spans, min_size=1, max_size=12), st.lists(spans, max_size=8), st.lists(moments, max_size=20))
def test_later_is_never_left_of_earlier(
    waits: list[TimeSpan], work: list[TimeSpan], looked_at: list[datetime]
) -> None:
    every = [*waits, *work]
    axis = fold_waits(min(one.start for one in every), max(one.end for one in every), waits, work)
    positions = [axis.position(moment) for moment in sorted(looked_at)]
    assert positions == sorted(positions)
    assert all(0 <= position <= 1 for position in positions)
    assert axis.position(axis.start) == 0
    assert axis.position(axis.end) == 1
    limit = FOLD_FACTOR * sum((one.length for one in work), timedelta(0))
    for fold in axis.folds:
        assert fold.length > limit
        assert not any(one.start < fold.end and fold.start < one.end for one in work)
    assert all(one.end <= two.start for one, two in pairwise(axis.folds))


@given(st.lists(spans, min_size=1, max_size=6), st.lists(spans, max_size=6), st.integers(1, 12))
def test_ticks_stand_at_round_times_outside_of_folds(
    waits: list[TimeSpan], work: list[TimeSpan], count: int
) -> None:
    every = [*waits, *work]
    axis = fold_waits(min(one.start for one in every), max(one.end for one in every), waits, work)
    ticks = axis.ticks(count)
    assert len(ticks) <= 2 * count + len(axis.folds) + 2
    assert all(0 <= tick.position <= 1 for tick in ticks)
    for fold in axis.folds:
        start, end = axis.position(fold.start), axis.position(fold.end)
        assert not any(start + 1e-9 < tick.position < end - 1e-9 for tick in ticks)


def test_the_ticks_of_a_short_job() -> None:
    ticks = FoldedAxis(NOON, after(0.35)).ticks(4)
    assert [tick.text for tick in ticks] == ["0", "100 ms", "200 ms", "300 ms"]
