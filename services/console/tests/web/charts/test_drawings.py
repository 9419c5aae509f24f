"""Drawings of anything: within their places, escaped, and honest about gaps.

Their looks: test_golden.py, their labels: test_labels.py.
"""

import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID
from xml.etree.ElementTree import Element, fromstring
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store_rows import NOON, after

from warrener.operations.schedules import ListedTick
from warrener.web import charts
from warrener.web.charts.over_time import DeployMark, TimeBucket, draw_throughput, draw_trend
from warrener.web.charts.picture import Picture
from warrener.web.charts.small import HOURS, HeatCells, count_ticks, draw_heatmap, draw_sparkline, level
from warrener_contracts.events import TickStatus
from warrener_contracts.state_machine import JobState

JOB_ID = UUID("01936f2e-8a3b-7c4d-9e5f-0123456789ab")
SHEET = (Path(charts.__file__).parent / "charts.css").read_text(encoding="utf-8")
CLASSES = {*re.findall(r"\.(chart[\w-]*)", SHEET), "chart-segments", "chart-mini-strip", "chart-table"}
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' style='x",
    "]]>&amp;<!--",
    "\x00\x1b[31m\x9f\ufffe",
    "\u202eevil\u2066",
    "W" * 400,
    "漢字かな交じり文" * 20,
    "word " * 200,
]
hostile = st.one_of(st.sampled_from(HOSTILE), st.text())
lengths = st.floats(0, 1e6).map(lambda seconds: timedelta(seconds=seconds))
moments = st.floats(0, 1e7).map(after)


def tick(
    nominal_at: datetime, state: JobState | None = None, duration: timedelta | None = None, reason: str = ""
) -> ListedTick:
    has_job, has_run = state is not None, duration is not None
    return ListedTick(
        nominal_at=nominal_at,
        status=TickStatus.FIRED if has_job else TickStatus.SKIPPED,
        reason=reason,
        due_at=nominal_at,
        decided_at=nominal_at,
        fired_at=nominal_at if has_job else None,
        job_id=JOB_ID if has_job else None,
        state=state,
        attempt=1 if has_job else None,
        started_at=nominal_at if has_run else None,
        finished_at=nominal_at + duration if duration is not None else None,
    )


states = st.one_of(st.none(), st.sampled_from(JobState))
runs = st.builds(tick, moments, states, st.one_of(st.none(), lengths), hostile)
buckets = st.builds(
    TimeBucket,
    start=moments,
    succeeded=st.integers(0, 10**7),
    failed=st.integers(0, 10**6),
    retried=st.integers(0, 3),
    cancelled=st.integers(0, 3),
    p50=st.one_of(st.none(), lengths),
    p95=st.one_of(st.none(), lengths),
)


def check_picture(picture: Picture) -> Element:
    """Check the columns, the classes and the texts of a drawing; return its root."""
    markup = picture.__html__()
    assert not re.search("<(script|img)", markup)
    root = fromstring(markup)
    ids = [each.get("id") for each in root.iter() if each.get("id")]
    assert len(ids) == len(set(ids))
    for each in root.iter():
        assert not [name for name in each.attrib if name == "style" or name.startswith("on")]
        assert set((each.get("class") or "").split()) <= CLASSES
        if (each.get("x") or "").endswith("%"):
            start, width = (float((each.get(name) or "0").rstrip("%")) for name in ("x", "width"))
            assert start >= -0.01
            assert start + (width if each.tag == "rect" else 0) <= 100.02
        assert float((each.get("height") or "0").rstrip("%")) >= 0
    return root


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path)]


def look_of(root: Element, tag: str, look: str) -> list[Element]:
    return [each for each in root.iter(tag) if each.get("class") == look]


places = st.tuples(st.dates(date(2026, 11, 1), date(2026, 11, 30)), st.integers(0, HOURS - 1))
counts = st.fixed_dictionaries({False: st.integers(0, 10**6), True: st.integers(0, 10)}).map(Counter[bool])


@given(st.dictionaries(places, counts, max_size=60), st.integers(0, 31), hostile)
@settings(deadline=None, max_examples=40)
def test_a_heat_map_of_any_ticks(shown: HeatCells, days: int, title: str) -> None:
    drawn = [date(2026, 11, 1) + timedelta(days=number) for number in range(days)]
    check_picture(draw_heatmap(shown, drawn, title=title))


@given(st.lists(st.one_of(st.none(), st.floats(-1e9, 1e9)), max_size=80), hostile)
def test_a_sparkline_of_anything(values: list[float | None], title: str) -> None:
    root = check_picture(draw_sparkline(values, title=title, name="s"))
    for path in root.iter("path"):
        assert all(0 <= x <= 120 and 0 <= y <= 24 for x, y in points(path.get("d") or ""))


def test_ticks_are_counted_in_the_zone_of_the_reader() -> None:
    zone = ZoneInfo("Europe/Berlin")
    ticks = [(datetime(2026, 10, 24, 22, 30, tzinfo=UTC), False)]
    # The clocks of that night show 2:30 twice: one cell.
    ticks += [(datetime(2026, 10, 25, hour, 30, tzinfo=UTC), hour == 1) for hour in (0, 1)]
    day = date(2026, 10, 25)
    assert count_ticks(ticks, zone) == {(day, 0): {False: 1}, (day, 2): {False: 1, True: 1}}


def test_the_strength_of_a_cell_is_its_share_of_the_most() -> None:
    assert [level(ticks, 10) for ticks in (0, 1, 3, 5, 7, 10)] == [0, 1, 2, 3, 4, 5]
    assert level(1, 1) == 3


def test_a_trend_has_a_gap_where_nothing_was_measured() -> None:
    times: dict[str, Any] = {"p50": timedelta(seconds=1), "p95": timedelta(seconds=4)}
    shown = [TimeBucket(start=after(number * 60)) for number in range(10)]
    for number in (0, 1, 2, 5, 8, 9):
        shown[number] = replace(shown[number], succeeded=9, failed=number % 2, **times)
    root = check_picture(draw_trend(shown, title="flights.load", deploys=[DeployMark(after(90), "2.4.1")]))
    lines = look_of(root, "path", "chart-line chart-live")
    assert [len(points(each.get("d") or "")) for each in lines] == [3, 2]
    assert len(look_of(root, "circle", "chart-point chart-good")) == 1
    titles = [each.text for each in root.iter("title")]
    assert "2.4.1, since 2026-11-20 12:01" in titles
    assert "2026-11-20 12:01, 1 failed" in titles


def test_a_deploy_outside_of_the_time_is_not_drawn() -> None:
    shown = [TimeBucket(start=NOON, succeeded=1), TimeBucket(start=after(60), succeeded=1)]
    outside = [DeployMark(after(-9), "old"), DeployMark(after(61), "new")]
    assert "chart-deploy" not in draw_trend(shown, title="x", deploys=outside).drawing


def test_one_failure_among_a_million_successes_is_seen() -> None:
    bucket = TimeBucket(start=NOON, succeeded=10**6, failed=1)
    root = check_picture(draw_throughput([bucket], title="jobs"))
    failed = look_of(root, "rect", "chart-bar chart-error")
    assert [float(each.get("height", 0)) for each in failed] == [2, 10]  # the bar, and the legend
