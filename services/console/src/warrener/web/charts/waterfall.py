"""The waterfall of a job as rows of a page: waits hatched, attempts solid, the future dashed. Pure.

A row has its texts, and a lane: an SVG whose columns are shares of its width. `charts.css` lays the rows out
for wide places and for narrow ones.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

from warrener.render import waterfall_bars
from warrener.render.time_axis import FoldedAxis, TimeSpan
from warrener.render.times import brief
from warrener.render.tones import Tone
from warrener.render.waterfall import Waterfall
from warrener.web.charts.picture import Picture, facts_table, legend, place_labels, text_width
from warrener.web.charts.svg import Attributes, Markup, element, link, percent

_BAR = 14.0  # height
_MIN_BAR = 0.004  # share of the width
_MIN_RAGGED = 0.02  # share of the width of a bar whose end is torn
_LANE = 512.0  # pixels of the narrowest lane that has labels
_GAP = 10.0  # pixels
_PLANNED = {waterfall_bars.BarLook.PLANNED: " (planned)"}
_TORN = "M1 -7L-5 -3.5L1 0L-5 3.5L1 7Z"  # the gaps between the teeth
_MARKS: dict[waterfall_bars.MarkKind, tuple[str, str]] = {
    waterfall_bars.MarkKind.ACCEPTED: ("M0 -6L6 0L0 6L-6 0Z", "closed"),
    waterfall_bars.MarkKind.HEARTBEAT: ("M0 -10V10", "open"),
    waterfall_bars.MarkKind.CHECKPOINT: ("M0 7V-14L8 -10.5L0 -7Z", "flag"),
    waterfall_bars.MarkKind.DEADLINE: ("M-3 -10H0V10H-3", "open"),
    waterfall_bars.MarkKind.END: ("M0 -6L6 0L0 6L-6 0Z", "closed"),
}
"""The sign of a moment, around its middle: each kind has a form of its own."""
_HATCHES: dict[waterfall_bars.WaitGroup, tuple[float, int, str]] = {
    waterfall_bars.WaitGroup.PLANNED: (7.0, 45, "M3.5 0V7"),
    waterfall_bars.WaitGroup.RESOURCE: (5.0, -45, "M2.5 0V5"),
    waterfall_bars.WaitGroup.BLOCKED: (7.0, 45, "M3.5 0V7M0 3.5H7"),
    waterfall_bars.WaitGroup.TRANSIT: (4.0, 0, "M0 2H2"),
    waterfall_bars.WaitGroup.SILENCE: (8.0, 0, "M0 4Q2 1 4 4T8 4"),
}
"""Size, angle and strokes of each hatching, so that colour is not needed."""


class WaterfallLinks(NamedTuple):
    """Addresses of the rows that stand for several. Without one, such a row is no link."""

    toggle_child_jobs: str | None = None
    all_attempts: str | None = None

    def of(self, row: waterfall_bars.WaterfallRow) -> str | None:
        """The address of a row."""
        return {
            waterfall_bars.RowKind.ATTEMPT: f"#attempt-{row.attempt}",
            waterfall_bars.RowKind.CHILD_JOB: f"/jobs/{row.job_id}",
            waterfall_bars.RowKind.CHILD_JOBS: self.toggle_child_jobs,
            waterfall_bars.RowKind.ATTEMPTS: self.all_attempts,
        }.get(row.kind)


def draw_waterfall(waterfall: Waterfall, links: WaterfallLinks) -> Picture:
    """Draw a waterfall: one on a page."""
    drawing = _Drawing(waterfall)
    rows = [drawing.row(row, links.of(row)) for row in waterfall.rows]
    swatches = [
        (drawing.swatch(look, group), words)
        for look, group, words in waterfall_bars.legend_of(waterfall.rows)
    ]
    whole = element(
        "div",
        drawing.patterns(),
        drawing.header(),
        *rows,
        legend(swatches),
        class_="chart chart-waterfall",
        role="group",
        aria_label=f"Timeline of {waterfall.title}: {waterfall.summary}",
    )
    return Picture(whole, _table(waterfall), fills_its_place=True)


class _Drawing:
    """The lanes of one waterfall, all on its axis."""

    def __init__(self, waterfall: Waterfall) -> None:
        self.axis, self.now = waterfall.axis, waterfall.now

    def patterns(self) -> Markup:
        """The hatchings, and the edges of a fold."""
        fold = element("path", d="M1 0L5 5L1 10M7 0L11 5L7 10", class_="chart-break-edge")
        ground = element("path", d="M4 0L8 5L4 10", class_="chart-break")
        drawn: list[Markup] = []
        for group, (size, turn, strokes) in _HATCHES.items():
            back = element("rect", width=size, height=size, class_=f"chart-hatch-ground chart-wait-{group}")
            lines = element("path", d=strokes, class_=f"chart-hatch chart-wait-{group}")
            box: Attributes = {"width": size, "height": size, "patternUnits": "userSpaceOnUse"}
            turned = f"rotate({turn})" if turn else None
            drawn.append(
                element("pattern", back, lines, id=f"waterfall-{group}", **box, patternTransform=turned)
            )
        box = {"width": 12, "height": 10, "patternUnits": "userSpaceOnUse"}
        broken = element("pattern", ground, fold, id="waterfall-fold", **box)
        return element("svg", element("defs", *drawn, broken), width=0, height=0, class_="chart-patterns")

    def header(self) -> Markup:
        """Times and, above them, the lengths of folds and now, as many as have room."""
        folds = [(self._middle(fold), f"⋯ {brief(fold.length)}") for fold in self.axis.folds]
        now = [] if self.now is None else [(self.axis.position(self.now), "now")]
        parts: list[Markup] = []
        for x, words, look in place_labels([*now, *folds]):
            strong = " chart-strong" if now and (x, words) == now[0] else ""
            parts.append(_text(x, 12, words, f"chart-axis{strong} {look}"))
        if self.now is not None:
            parts.append(self._line(self.axis.position(self.now), 17, 40, "chart-now"))
        wide, narrow = ([*now, *((t.position, t.text) for t in self.axis.ticks(count))] for count in (8, 4))
        for x, words, look in place_labels(wide, narrow):
            if (x, words) not in now:
                parts.append(_text(x, 28, words, f"chart-axis {look}"))
                parts.append(self._line(x, 33, 38, f"chart-tick {look}"))
        lane = element("svg", *parts, height=38, class_="chart-lane")
        return element("div", lane, class_="chart-row chart-times", aria_hidden="true")

    def row(self, row: waterfall_bars.WaterfallRow, href: str | None) -> Markup:
        """A row: its texts and its lane. Screen readers have its link, and the table."""
        tone = "" if row.tone is None else f" chart-tone-{row.tone}"
        name = element("span", f"{row.sign} {row.name}" if row.sign else row.name, aria_hidden="true")
        named = link(href, f"{row.name}: {row.detail}", name)
        is_empty = not (row.bars or row.marks)
        return element(
            "div",
            element("div", named, class_=f"chart-name{tone}"),
            element("div", row.detail, class_="chart-detail", title=row.detail or None, aria_hidden="true"),
            element(
                "svg",
                *self._lane(row),
                class_=f"chart-lane{' chart-wide' if is_empty else ''}",
                aria_hidden="true",
            ),
            element("div", waterfall_bars.length_text(row), class_="chart-length", aria_hidden="true"),
            class_="chart-row chart-row-child"
            if row.kind is waterfall_bars.RowKind.CHILD_JOB
            else "chart-row",
        )

    def _lane(self, row: waterfall_bars.WaterfallRow) -> Iterator[Markup]:
        for fold in self.axis.folds:
            start, end = self.axis.position(fold.start), self.axis.position(fold.end)
            title = element("title", f"{fold.text}, folded")
            box: Attributes = {"x": percent(start), "width": percent(end - start), "height": "100%"}
            yield element("rect", title, **box, class_=f"chart-fold{_where(row, fold)}")
        bars = (part for bar in row.bars for part in self._bar(bar))
        yield element("svg", *bars, y="50%", class_="chart-over")
        for fold in self.axis.folds:
            edges = element("rect", x=-6, width=12, height="100%", fill="url(#waterfall-fold)")
            yield element(
                "svg", edges, x=percent(self._middle(fold)), class_=f"chart-over{_where(row, fold)}"
            )
        if self.now is not None:
            yield self._line(self.axis.position(self.now), 0, "100%", "chart-now")
        marks = (self._mark(mark) for mark in row.marks)
        yield element("svg", *marks, *self._label(row), y="50%", class_="chart-over")

    def _middle(self, fold: TimeSpan) -> float:
        return (self.axis.position(fold.start) + self.axis.position(fold.end)) / 2

    def _line(self, x: float, top: float, bottom: float | str, look: str) -> Markup:
        return element("line", x1=percent(x), y1=top, x2=percent(x), y2=bottom, class_=look.rstrip())

    def _span(self, bar: waterfall_bars.WaterfallBar) -> tuple[float, float]:
        """Where a bar begins and ends; a short one is as wide as can be seen."""
        start, end = self.axis.position(bar.start), self.axis.position(bar.end)
        end = min(max(end, start + _MIN_BAR), 1.0)
        return min(start, end - _MIN_BAR), end

    def _bar(self, bar: waterfall_bars.WaterfallBar) -> Iterator[Markup]:
        start, end = self._span(bar)
        box: Attributes = {"x": percent(start), "y": -_BAR / 2, "width": percent(end - start), "height": _BAR}
        words = bar.text if bar.is_sign else f"{bar.text}, {brief(bar.length)}"
        yield element("rect", element("title", words), **box, **self._look(bar), rx=2)
        if bar.ragged and bar.look is waterfall_bars.BarLook.SOLID and end - start > _MIN_RAGGED:
            teeth = element("path", d=_TORN, class_="chart-notch")
            yield element("svg", teeth, x=percent(end), class_="chart-over")

    def _look(self, bar: waterfall_bars.WaterfallBar) -> dict[str, str]:
        if bar.look is waterfall_bars.BarLook.SOLID:
            return {"class_": f"chart-bar chart-{bar.tone}"}
        if bar.look is waterfall_bars.BarLook.PLANNED:
            return {"class_": f"chart-plan chart-{bar.tone}"}
        group = bar.group or waterfall_bars.WaitGroup.RESOURCE
        return {"class_": f"chart-wait chart-wait-{group}", "fill": f"url(#waterfall-{group})"}

    def swatch(self, look: waterfall_bars.BarLook, group: waterfall_bars.WaitGroup | None) -> Markup:
        """A bar of a look for the legend."""
        bar = waterfall_bars.WaterfallBar(look, self.axis.start, self.axis.end, "", Tone.LIVE, group)
        return element("rect", x=0.5, y=0.5, width=17, height=9, rx=2, **self._look(bar))

    def _mark(self, mark: waterfall_bars.WaterfallMark) -> Markup:
        shape, form = _MARKS[mark.kind]
        look = f"chart-mark chart-mark-{form} chart-{mark.tone}"
        drawn = element("path", element("title", mark.text), d=shape, class_=look)
        return element("svg", drawn, x=percent(self.axis.position(mark.at)), class_="chart-over")

    def _label(self, row: waterfall_bars.WaterfallRow) -> Iterator[Markup]:
        """Write the cause of the longest bar within it, or beside the bars, on the side with room."""
        if row.kind in (waterfall_bars.RowKind.CHILD_JOBS, waterfall_bars.RowKind.ATTEMPTS) or not row.bars:
            return
        past = [bar for bar in row.bars if bar.look is not waterfall_bars.BarLook.PLANNED]
        bar = max(past or row.bars, key=lambda each: each.length)
        text = _label_text(bar, self.axis)
        room = (text_width(text) + _GAP) / _LANE
        start, end = self._span(bar)
        marks = [self.axis.position(mark.at) for mark in row.marks]
        first = min([*(self._span(each)[0] for each in row.bars), *marks])
        last = max([*(self._span(each)[1] for each in row.bars), *marks])
        beside = 12 if marks else 6  # pixels
        if bar.look is waterfall_bars.BarLook.HATCHED and end - start > 1.4 * room and not marks:
            yield _text((start + end) / 2, 4, text, "chart-label")
        elif 1 - last > room:
            yield element("text", text, x=percent(last), dx=beside, y=4, class_="chart-label")
        elif first > room:
            place: Attributes = {"x": percent(first), "dx": -beside, "y": 4}
            yield element("text", text, **place, text_anchor="end", class_="chart-label")


def _text(x: float, y: float, words: str, look: str) -> Markup:
    return element("text", words, x=percent(x), y=y, text_anchor="middle", class_=look.rstrip())


def _where(row: waterfall_bars.WaterfallRow, fold: TimeSpan) -> str:
    """A fold goes through all rows, in a narrow place through those alone that have a bar of its time."""
    crossed = any(bar.start < fold.end and fold.start < bar.end for bar in row.bars)
    return "" if crossed else " chart-wide"


def _label_text(bar: waterfall_bars.WaterfallBar, axis: FoldedAxis) -> str:
    folded = any(bar.start <= fold.start and fold.end <= bar.end for fold in axis.folds)
    length = brief(bar.length) if bar.length >= timedelta(milliseconds=1) else ""
    if bar.is_sign:
        return bar.text
    if bar.look is waterfall_bars.BarLook.SOLID:
        return f"{bar.text}, {length}" if length else bar.text
    return f"{'⋯ ' if folded else ''}{length} {bar.text}".strip()


def _table(waterfall: Waterfall) -> Markup:
    """Bars and moments as a table, in words and with the time since the start."""
    start = waterfall.axis.start
    rows: list[tuple[str, ...]] = []
    for row in waterfall.rows:
        facts = [
            (bar.start, f"{bar.text}{_PLANNED.get(bar.look, '')}", "" if bar.is_sign else brief(bar.length))
            for bar in row.bars
        ]
        facts += [(mark.at, mark.text, "") for mark in row.marks]
        rows += [
            (row.name, text, brief(at - start), length, row.detail)
            for at, text, length in sorted(facts, key=lambda fact: fact[0])
        ]
        if not facts:
            rows.append((row.name, "", "", "", row.detail))
    header = ("step", "what", "after", "length", "details")
    return facts_table(f"Timeline of {waterfall.title}: {waterfall.summary}", header, rows)
