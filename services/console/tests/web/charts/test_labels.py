"""No label of a chart of anything lies over another one or leaves its place, wide or narrow; all is valid."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple
from xml.etree.ElementTree import Element, fromstring

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warrener.operations.schedules import ListedTick
from warrener.render.waterfall import WaterfallFacts, lay_out
from warrener.web.charts.over_time import DeployMark, TimeBucket, draw_throughput, draw_trend
from warrener.web.charts.picture import Picture
from warrener.web.charts.strip import draw_mini_strip, draw_strip
from warrener.web.charts.waterfall import draw_waterfall

from .test_drawings import buckets, check_picture, hostile, moments, points, runs
from .test_waterfall_drawing import LINKS, jobs

FONT = 11.0
HIDDEN = {"wide": {"chart-narrow"}, "narrow": {"chart-wide", "chart-label"}}
"""By charts.css, which shows the labels of bars in wide places alone."""
LANES = {"wide": 512.0, "narrow": 280.0}
PLOTS = {"wide": 508.0, "narrow": 220.0}
"""Least widths by charts.css: containers of 36rem (a waterfall: 56rem), and a phone of 320 pixels."""
LEFT, RIGHT = 72.0, 28.0
"""What is free beside a plot: 56 and 12 pixels by charts.css, and 16 of its card."""
EACH_LOOK = pytest.mark.parametrize("look", HIDDEN)
versions = st.one_of(hostile, st.from_regex(r"v?[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}", fullmatch=True))
deploys = st.lists(st.builds(DeployMark, moments, versions), max_size=8)


class Box(NamedTuple):
    """The place of a text. A line of it begins above its base line."""

    left: float
    base: float
    width: float
    text: str


def width_of(sign: str) -> float:
    """The width of a sign of 11 pixels in DejaVu Sans, the widest of the fonts that charts.css names."""
    if not sign.isprintable() or sign in " -.,:;/|!'()[]fijltIJ\u202f":
        return FONT * 0.41
    if sign > "\u2e7f" or sign in "@%WmMw#&+<=>^~⋯":
        return FONT * 1.03
    return FONT * (0.8 if sign.isupper() or sign > "\x7f" else 0.64)


def boxes(
    parent: Element, hidden: set[str], width: float, corner: tuple[float, float] = (0.0, 0.0)
) -> Iterator[Box]:
    def length(each: Element, name: str) -> float:
        value = each.get(name) or "0"
        return width * float(value[:-1]) / 100 if value.endswith("%") else float(value)

    for each in parent:
        if hidden.intersection((each.get("class") or "").split()):
            continue
        if each.tag == "svg":
            # Heights in percent are those of a lane, where all has the same one.
            top = 0.0 if (each.get("y") or "").endswith("%") else float(each.get("y") or 0)
            yield from boxes(each, hidden, width, (corner[0] + length(each, "x"), corner[1] + top))
        elif each.tag == "text":
            room = sum(map(width_of, each.text or ""))
            left = corner[0] + length(each, "x") + float(each.get("dx") or 0)
            left -= {"middle": room / 2, "end": room}.get(each.get("text-anchor") or "", 0.0)
            yield Box(left, corner[1] + float(each.get("y") or 0), room, each.text or "")
        else:
            yield from boxes(each, hidden, width, corner)


def check_labels(drawing: Element, look: str, width: float, beside: tuple[float, float]) -> list[Box]:
    found = [box for box in boxes(drawing, HIDDEN[look], width) if box.text.strip()]
    for one, two in combinations(found, 2):
        is_across = one.left < two.left + two.width and two.left < one.left + one.width
        assert not (is_across and abs(one.base - two.base) < FONT), (look, width, one, two)
    for box in found:
        assert -beside[0] <= box.left, (look, width, box)
        assert box.left + box.width <= width + beside[1], (look, width, box)
    return found


def drawing_of(picture: Picture) -> Element:
    return fromstring(f"<div>{picture.drawing}</div>")[0]


@EACH_LOOK
@pytest.mark.parametrize("draw", [draw_trend, draw_throughput])
@given(st.lists(buckets, max_size=60), deploys, hostile)
@settings(deadline=None)
def test_a_chart_over_time(
    look: str, draw: Callable[..., Picture], shown: list[TimeBucket], marks: list[DeployMark], title: str
) -> None:
    picture = draw(shown, title=title, deploys=marks)
    for path in check_picture(picture).iter("path"):
        assert all(0 <= x <= 1000 and 0 <= y <= 260 for x, y in points(path.get("d") or ""))
    assert check_labels(drawing_of(picture), look, PLOTS[look], (LEFT, RIGHT))


@EACH_LOOK
@given(st.lists(runs, max_size=40), hostile)
@settings(deadline=None)
def test_a_strip_of_any_runs(look: str, shown: Sequence[ListedTick], title: str) -> None:
    picture = draw_strip(shown, title=title)
    check_picture(picture)
    check_picture(draw_mini_strip(shown, title=title, name="strip"))
    assert picture.table.count("<tr>") == 1 + len(shown)
    drawing = drawing_of(picture)
    width = float(drawing.get("width") or 0)
    # A strip of few runs has room at its right for the time of the first one.
    found = check_labels(drawing, look, width if look == "wide" else min(width, 221.0), (80.0, 110.0))
    assert bool(found) is bool(shown)


@EACH_LOOK
@given(jobs())
@settings(deadline=None, max_examples=60)
def test_a_waterfall_of_any_job(look: str, facts: WaterfallFacts) -> None:
    picture = draw_waterfall(lay_out(facts), LINKS)
    check_picture(picture)
    for lane in drawing_of(picture).iter("svg"):
        if "chart-lane" in (lane.get("class") or "").split():
            check_labels(lane, look, LANES[look], (24.0, 24.0))
