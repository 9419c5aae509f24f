"""Strip, heat map, trend and sparkline: within their boxes, readable, and honest about gaps."""

import re
from datetime import UTC, date, datetime, timedelta
from itertools import combinations
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warrener.web import charts
from warrener.web.charts.heatmap import HOURS, HeatCell, count_ticks, draw_heatmap, level
from warrener.web.charts.picture import Picture
from warrener.web.charts.sparkline import draw_sparkline
from warrener.web.charts.strip import ScheduleRun, draw_mini_strip, draw_strip
from warrener.web.charts.throughput import ThroughputBucket, draw_throughput
from warrener.web.charts.time_frame import DeployMark
from warrener.web.charts.trend import TrendBucket, draw_trend
from warrener_contracts.state_machine import JobState
from warrener_store.testing import NOON, after

SHEET = (Path(charts.__file__).parent / "charts.css").read_text(encoding="utf-8")
SVG = "{http://www.w3.org/2000/svg}"
CLASSES = set(re.findall(r"\.(chart[\w-]*)", SHEET))
hostile = st.one_of(
    st.sampled_from(["<script>", '"><b x="', "\x00\u202e", "W" * 300, "漢字" * 99]), st.text()
)
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


def check(picture: Picture) -> Element:
    """Check the box, the texts and the classes of a drawing; return its root."""
    root = fromstring(picture.svg)
    fromstring(picture.table)
    for box in picture.texts:
        assert box.x >= -0.01, box
        assert box.x + box.width <= picture.width + 0.01, box
        assert box.y - box.size >= 0, box
        assert box.y <= picture.height, box
    for one, two in combinations(picture.texts, 2):
        apart = (
            one.x + one.width <= two.x
            or two.x + two.width <= one.x
            or one.y - one.size >= two.y
            or two.y - two.size >= one.y
        )
        assert apart, (one, two)
    for each in root.iter():
        assert not [name for name in each.attrib if name == "style" or name.startswith("on")]
        assert set((each.get("class") or "").split()) <= CLASSES
        for name, limit in (("x", picture.width), ("y", picture.height), ("cx", picture.width)):
            assert -0.01 <= float(each.get(name, 0)) <= limit + 0.01
    return root


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path)]


@given(st.lists(runs, max_size=40), hostile, st.booleans())
@settings(deadline=None)
def test_a_strip_of_any_runs(shown: list[ScheduleRun], title: str, narrow: bool) -> None:  # noqa: FBT001 - drawn
    picture = draw_strip(shown, title=title, narrow=narrow)
    check(picture)
    assert "<script" not in picture.__html__()
    assert picture.table.count("<tr>") == 1 + (min(len(shown), 15) if narrow else len(shown))


def test_a_strip_in_a_list_has_a_bar_of_its_own_form_for_each_state() -> None:
    runs = [
        ScheduleRun(nominal_at=NOON, state=JobState.SUCCEEDED, duration=timedelta(seconds=4)),
        ScheduleRun(nominal_at=NOON, state=JobState.DEAD, duration=timedelta(seconds=1)),
        ScheduleRun(nominal_at=NOON, state=JobState.RUNNING),
        ScheduleRun(nominal_at=NOON, note="skipped"),
    ]
    picture = draw_mini_strip(runs, title="Last runs of x", name="strip-x")
    for look in ("chart-bar chart-good", "chart-notch", "chart-hollow chart-live", "chart-point chart-soft"):
        assert picture.svg.count(look) == 1, look
    assert "skipped" in picture.svg
    assert (picture.width, "<a " in picture.svg) == (32.0, False)
    assert "1 of the last 4 runs succeeded" in picture.svg
    assert "no job" in picture.table


def test_a_strip_is_as_high_as_its_runs_took_long() -> None:
    shown = [
        ScheduleRun(nominal_at=after(0), state=JobState.SUCCEEDED, duration=timedelta(seconds=10)),
        ScheduleRun(nominal_at=after(60), state=JobState.DEAD, duration=timedelta(seconds=5)),
        ScheduleRun(nominal_at=after(120), state=JobState.RUNNING, duration=timedelta(seconds=2)),
        ScheduleRun(nominal_at=after(180), note="missed"),
    ]
    root = check(draw_strip(shown, title="flights.hourly"))
    bars = [each for each in root.iter(f"{SVG}rect") if "chart-touch" not in (each.get("class") or "")]
    heights = [float(each.get("height", 0)) for each in bars]
    assert heights[1] == pytest.approx(heights[0] / 2)
    assert [each.get("class") for each in bars] == [
        "chart-bar chart-good",
        "chart-bar chart-error",
        "chart-hollow chart-live",
    ]
    signs = [each.text for each in root.iter(f"{SVG}text") if "chart-sign" in (each.get("class") or "")]
    assert signs == ["●", "✗", "◐", "·"]
    assert root.find(f"{SVG}desc") is not None
    assert "1 of the last 4 runs succeeded, median 5 s, longest 10 s." in draw_strip(shown, title="x").svg


@given(
    st.lists(
        st.builds(
            HeatCell,
            st.dates(date(2026, 11, 1), date(2026, 11, 30)),
            st.integers(0, HOURS - 1),
            st.integers(0, 10**6),
            st.integers(0, 10),
        ),
        max_size=60,
    ),
    st.integers(0, 31),
    st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_a_heat_map_of_any_ticks(cells: list[HeatCell], days: int, narrow: bool) -> None:  # noqa: FBT001 - drawn
    shown = [date(2026, 11, 1) + timedelta(days=number) for number in range(days)]
    check(draw_heatmap(cells, shown, title="ticks", narrow=narrow))


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


@given(
    st.lists(buckets, max_size=40),
    st.lists(st.builds(DeployMark, moments, hostile), max_size=8),
    hostile,
    st.booleans(),
)
@settings(deadline=None)
def test_a_trend_of_anything(
    shown: list[TrendBucket],
    deploys: list[DeployMark],
    title: str,
    narrow: bool,  # noqa: FBT001 - drawn
) -> None:
    picture = draw_trend(shown, title=title, deploys=deploys, narrow=narrow)
    root = check(picture)
    assert "<script" not in picture.__html__()
    for path in root.iter(f"{SVG}path"):
        for x, y in points(path.get("d") or ""):
            assert -0.01 <= x <= picture.width
            assert -0.01 <= y <= picture.height


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
    root = check(draw_trend(shown, title="flights.load", deploys=[DeployMark(after(90), "2.4.1")]))
    lines = [each for each in root.iter(f"{SVG}path") if each.get("class") == "chart-line chart-live"]
    assert [len(points(each.get("d") or "")) for each in lines] == [3, 2]
    dots = [each for each in root.iter(f"{SVG}circle") if each.get("class") == "chart-point chart-good"]
    assert len(dots) == 1
    titles = [each.text for each in root.iter(f"{SVG}title")]
    assert "2.4.1, since 2026-11-20 12:01" in titles
    assert "2026-11-20 12:01, 1 failed" in titles


def test_a_deploy_outside_of_the_time_is_not_drawn() -> None:
    shown = [TrendBucket(start=NOON, succeeded=1), TrendBucket(start=after(60), succeeded=1)]
    picture = draw_trend(
        shown, title="x", deploys=[DeployMark(after(-9), "old"), DeployMark(after(61), "new")]
    )
    assert "chart-deploy" not in picture.svg


@given(st.lists(st.one_of(st.none(), st.floats(-1e9, 1e9)), max_size=80), hostile)
def test_a_sparkline_of_anything(values: list[float | None], title: str) -> None:
    root = check(draw_sparkline(values, title=title, name="s"))
    for path in root.iter(f"{SVG}path"):
        assert all(0 <= x <= 120 and 0 <= y <= 24 for x, y in points(path.get("d") or ""))


def test_a_sparkline_has_gaps() -> None:
    root = check(draw_sparkline([1, 2, None, 4, None, 3, 3], title="s", name="s"))
    assert len(list(root.iter(f"{SVG}path"))) == 2
    assert len(list(root.iter(f"{SVG}circle"))) == 2


@given(
    st.lists(
        st.builds(
            ThroughputBucket,
            start=moments,
            succeeded=st.integers(0, 10**7),
            failed=st.integers(0, 10**4),
            retried=st.integers(0, 3),
            cancelled=st.integers(0, 3),
        ),
        max_size=60,
    ),
    st.lists(st.builds(DeployMark, moments, hostile), max_size=4),
    hostile,
    st.booleans(),
)
@settings(deadline=None)
def test_a_throughput_of_anything(
    shown: list[ThroughputBucket],
    deploys: list[DeployMark],
    title: str,
    narrow: bool,  # noqa: FBT001 - drawn
) -> None:
    hour = timedelta(hours=1)
    root = check(draw_throughput(shown, hour, title=title, deploys=deploys, narrow=narrow))
    for each in root.iter(f"{SVG}rect"):
        assert float(each.get("height", 0)) >= 0


def test_one_failure_among_a_million_successes_is_seen() -> None:
    bucket = ThroughputBucket(start=NOON, succeeded=10**6, failed=1)
    root = check(draw_throughput([bucket], timedelta(minutes=1), title="jobs"))
    failed = [each for each in root.iter(f"{SVG}rect") if each.get("class") == "chart-bar chart-error"]
    assert [float(each.get("height", 0)) for each in failed] == [2, 10]  # the bar, and the legend
