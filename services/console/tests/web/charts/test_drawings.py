"""Drawings of anything: within their places, escaped, and honest about gaps. Their looks: test_golden.py."""

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store_rows import NOON, after

from warrener.web import charts
from warrener.web.charts.heatmap import HOURS, HeatCell, count_ticks, draw_heatmap, level
from warrener.web.charts.picture import Picture
from warrener.web.charts.sparkline import draw_sparkline
from warrener.web.charts.strip import ScheduleRun, draw_mini_strip, draw_strip
from warrener.web.charts.throughput import ThroughputBucket, draw_throughput
from warrener.web.charts.time_frame import DeployMark
from warrener.web.charts.trend import TrendBucket, draw_trend
from warrener_contracts.state_machine import JobState

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
runs = st.builds(
    ScheduleRun,
    nominal_at=moments,
    state=st.one_of(st.none(), st.sampled_from(JobState)),
    duration=st.one_of(st.none(), lengths),
    note=hostile,
    href=st.sampled_from([None, "/jobs/1"]),
)
buckets = st.builds(
    TrendBucket,
    start=moments,
    succeeded=st.integers(0, 10**6),
    failed=st.integers(0, 10**6),
    p50=st.one_of(st.none(), lengths),
    p95=st.one_of(st.none(), lengths),
)


def check_picture(picture: Picture) -> Element:
    """Check the columns, the classes and the texts of a drawing; return its root."""
    markup = picture.__html__()
    assert "<script" not in markup
    assert "<img" not in markup
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


cells = st.builds(
    HeatCell,
    st.dates(date(2026, 11, 1), date(2026, 11, 30)),
    st.integers(0, HOURS - 1),
    st.integers(0, 10**6),
    st.integers(0, 10),
)
ended = st.builds(
    ThroughputBucket,
    start=moments,
    succeeded=st.integers(0, 10**7),
    failed=st.integers(0, 10**4),
    retried=st.integers(0, 3),
    cancelled=st.integers(0, 3),
)
deploys = st.lists(st.builds(DeployMark, moments, hostile), max_size=8)


@given(st.lists(runs, max_size=40), hostile)
@settings(deadline=None)
def test_a_strip_of_any_runs(shown: list[ScheduleRun], title: str) -> None:
    picture = draw_strip(shown, title=title)
    check_picture(picture)
    check_picture(draw_mini_strip(shown, title=title, name="strip"))
    assert picture.table.count("<tr>") == 1 + len(shown)


@given(st.lists(cells, max_size=60), st.integers(0, 31), hostile)
@settings(deadline=None, max_examples=40)
def test_a_heat_map_of_any_ticks(shown: list[HeatCell], days: int, title: str) -> None:
    first = date(2026, 11, 1)
    check_picture(
        draw_heatmap(shown, [first + timedelta(days=number) for number in range(days)], title=title)
    )


@given(st.lists(buckets, max_size=40), deploys, hostile)
@settings(deadline=None)
def test_a_trend_of_anything(shown: list[TrendBucket], marks: list[DeployMark], title: str) -> None:
    root = check_picture(draw_trend(shown, title=title, deploys=marks))
    for path in root.iter("path"):
        assert all(0 <= x <= 1000 and 0 <= y <= 260 for x, y in points(path.get("d") or ""))


@given(st.lists(ended, max_size=60), deploys, hostile)
@settings(deadline=None)
def test_a_throughput_of_anything(shown: list[ThroughputBucket], marks: list[DeployMark], title: str) -> None:
    check_picture(draw_throughput(shown, timedelta(hours=1), title=title, deploys=marks))


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
    assert count_ticks(ticks, zone) == [
        HeatCell(date(2026, 10, 25), 0, 1),
        HeatCell(date(2026, 10, 25), 2, 2, 1),
    ]


def test_the_strength_of_a_cell_is_its_share_of_the_most() -> None:
    assert [level(ticks, 10) for ticks in (0, 1, 3, 5, 7, 10)] == [0, 1, 2, 3, 4, 5]
    assert level(1, 1) == 3


def test_a_trend_has_a_gap_where_nothing_was_measured() -> None:
    measured = {
        number: TrendBucket(
            start=after(number * 60),
            succeeded=9,
            failed=number % 2,
            p50=timedelta(seconds=1),
            p95=timedelta(seconds=4),
        )
        for number in (0, 1, 2, 5, 8, 9)
    }
    shown = [measured.get(number, TrendBucket(start=after(number * 60))) for number in range(10)]
    root = check_picture(draw_trend(shown, title="flights.load", deploys=[DeployMark(after(90), "2.4.1")]))
    lines = look_of(root, "path", "chart-line chart-live")
    assert [len(points(each.get("d") or "")) for each in lines] == [3, 2]
    assert len(look_of(root, "circle", "chart-point chart-good")) == 1
    titles = [each.text for each in root.iter("title")]
    assert "2.4.1, since 2026-11-20 12:01" in titles
    assert "2026-11-20 12:01, 1 failed" in titles


def test_a_deploy_outside_of_the_time_is_not_drawn() -> None:
    shown = [TrendBucket(start=NOON, succeeded=1), TrendBucket(start=after(60), succeeded=1)]
    picture = draw_trend(
        shown, title="x", deploys=[DeployMark(after(-9), "old"), DeployMark(after(61), "new")]
    )
    assert "chart-deploy" not in picture.drawing


def test_one_failure_among_a_million_successes_is_seen() -> None:
    bucket = ThroughputBucket(start=NOON, succeeded=10**6, failed=1)
    root = check_picture(draw_throughput([bucket], timedelta(minutes=1), title="jobs"))
    failed = look_of(root, "rect", "chart-bar chart-error")
    assert [float(each.get("height", 0)) for each in failed] == [2, 10]  # the bar, and the legend
