"""The waterfall of a job as SVG: waits hatched, attempts solid, the future dashed. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from warrener.render.time_axis import FoldedAxis, TimeSpan
from warrener.render.times import brief
from warrener.render.waterfall import Waterfall
from warrener.render.waterfall_bars import (
    BarLook,
    MarkKind,
    RowKind,
    WaitGroup,
    WaterfallBar,
    WaterfallMark,
    WaterfallRow,
)
from warrener.web.charts.picture import Picture, draw, facts_table
from warrener.web.charts.svg import Canvas, Markup, element, fit, line_path, text_width, wrap

_NAME, _DETAIL, _AXIS = 12.5, 11.0, 10.5  # sizes of texts
_HEADER = 38.0
_BAR, _MIN_BAR = 14.0, 3.0  # height, least width
_LINE = 14.0  # from one line of a detail to the next
_PAD = 12.0
_GAP = 6.0  # between a bar and its text
_AROUND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class WaterfallLinks:
    """Addresses of what rows show. Without one, a row is no link."""

    attempt: Callable[[int], str] | None = None
    child_job: Callable[[UUID], str] | None = None
    toggle_child_jobs: str | None = None
    all_attempts: str | None = None

    def of(self, row: WaterfallRow) -> str | None:
        """The address of a row."""
        if row.kind is RowKind.ATTEMPT and self.attempt is not None and row.attempt is not None:
            return self.attempt(row.attempt)
        if row.kind is RowKind.CHILD_JOB and self.child_job is not None and row.job_id is not None:
            return self.child_job(row.job_id)
        if row.kind is RowKind.CHILD_JOBS:
            return self.toggle_child_jobs
        return self.all_attempts if row.kind is RowKind.ATTEMPTS else None


NO_LINKS = WaterfallLinks()


@dataclass(frozen=True, slots=True)
class _Place:
    """The room of one row, and the columns that all rows share."""

    y: float
    height: float
    bar_y: float
    details: list[str]


class _Drawing:
    def __init__(self, waterfall: Waterfall, links: WaterfallLinks, name: str, *, narrow: bool) -> None:
        self.waterfall, self.links, self.name, self.narrow = waterfall, links, name, narrow
        self.width = 360.0 if narrow else 1040.0
        self.left = _PAD if narrow else 312.0  # of the bars
        self.right = self.width - (_PAD if narrow else 96.0)
        self.canvas = Canvas()
        self.places = self._place_rows()
        last = self.places[-1]
        self.bottom = last.y + last.height

    def _place_rows(self) -> list[_Place]:
        places: list[_Place] = []
        y, width = _HEADER, (self.width if self.narrow else self.left) - 2 * _PAD
        for row in self.waterfall.rows:
            details = wrap(row.detail, _DETAIL, width - self._indent(row), 3)
            above = 44.0 if self.narrow and (row.bars or row.marks) else 26.0
            height = above + _LINE * len(details) + (4.0 if details else 0.0)
            bar_y = y + 25.0 if self.narrow else y + (height - _BAR) / 2
            places.append(_Place(y, height, bar_y, details))
            y += height
        return places

    def _indent(self, row: WaterfallRow) -> float:
        return 14.0 if row.kind is RowKind.CHILD_JOB else 0.0

    def x(self, position: float) -> float:
        return self.left + (self.right - self.left) * position

    def make(self) -> Picture:
        waterfall = self.waterfall
        self.canvas.add(
            element("defs", *(_pattern(f"{self.name}-{group.value}", group) for group in WaitGroup))
        )
        self._draw_ground()
        for row, place in zip(waterfall.rows, self.places, strict=True):
            for bar in row.bars:
                self._draw_bar(bar, place)
        self._draw_folds()
        self._draw_now()
        for row, place in zip(waterfall.rows, self.places, strict=True):
            for mark in row.marks:
                self._draw_mark(mark, place)
            self._write_row(row, place)
        self._write_ticks()
        height = self._draw_legend(self.bottom + 12.0)
        words = (f"Timeline of {waterfall.title}", waterfall.summary)
        linked = any(self.links.of(row) for row in waterfall.rows)
        table = _table(waterfall)
        return draw(
            self.canvas, table, (self.width, height), self.name, words, "chart-waterfall", linked=linked
        )

    # -- ground, folds and now -----------------------------------------------------------------------------

    def _stretches(self, span: TimeSpan) -> list[tuple[float, float]]:
        """Where lines go from above to below: through all rows, or on a phone through bars of that time."""
        if not self.narrow:
            return [(_HEADER, self.bottom)]
        return [
            (place.bar_y - 4, place.bar_y + _BAR + 4)
            for row, place in zip(self.waterfall.rows, self.places, strict=True)
            if any(bar.start < span.end and span.start < bar.end for bar in row.bars)
        ]

    def _draw_ground(self) -> None:
        axis = self.waterfall.axis
        for fold in axis.folds:
            start, end = self.x(axis.position(fold.start)), self.x(axis.position(fold.end))
            title = element("title", f"{fold.text}, folded")
            for top, bottom in self._stretches(fold):
                box = {"x": start, "y": top, "width": end - start, "height": bottom - top}
                self.canvas.add(element("rect", title, **box, class_="chart-fold"))
        for place in self.places:
            self.canvas.add(_line(_PAD, place.y, self.width - _PAD, place.y, "chart-rule"))
        self.canvas.add(_line(_PAD, self.bottom, self.width - _PAD, self.bottom, "chart-rule"))

    def _draw_folds(self) -> None:
        axis = self.waterfall.axis
        for fold in axis.folds:
            middle = self.x((axis.position(fold.start) + axis.position(fold.end)) / 2)
            for top, bottom in self._stretches(fold):
                steps = max(int((bottom - top) / 5), 2)
                depth = (bottom - top) / steps
                zigzag = [(middle + (2 if step % 2 else -2), top + step * depth) for step in range(steps + 1)]
                self.canvas.add(element("path", d=line_path(zigzag), class_="chart-break"))
                for side in (-3.0, 3.0):
                    edge = line_path((x + side, y) for x, y in zigzag)
                    self.canvas.add(element("path", d=edge, class_="chart-break-edge"))

    def _draw_now(self) -> None:
        now = self.waterfall.now
        if now is None:
            return
        x = self.x(self.waterfall.axis.position(now))
        around = TimeSpan(now - _AROUND, now + _AROUND)
        for top, bottom in [(_HEADER - 18, _HEADER), *self._stretches(around)]:
            self.canvas.add(_line(x, top, x, bottom, "chart-now"))
        width = text_width("now", _AXIS)
        at = min(max(x, width / 2 + 4), self.width - width / 2 - 4)
        self.canvas.write(at, _HEADER - 23, "now", _AXIS, "chart-axis chart-strong", "middle")

    def _write_ticks(self) -> None:
        axis = self.waterfall.axis
        for fold in axis.folds:
            middle = self.x((axis.position(fold.start) + axis.position(fold.end)) / 2)
            text = f"⋯ {brief(fold.length)}"
            aside = text_width(text, _AXIS) / 2
            for x in (middle, middle - aside, middle + aside):
                if self._write_in_header(x, _HEADER - 23, text):
                    break
        for tick in axis.ticks(4 if self.narrow else 8):
            x = self.x(tick.position)
            if self._write_in_header(x, _HEADER - 9, tick.text):
                self.canvas.add(_line(x, _HEADER - 5, x, _HEADER, "chart-tick"))

    def _write_in_header(self, x: float, y: float, text: str) -> bool:
        """Write beside no other text, and within the box."""
        width = text_width(text, _AXIS)
        start = min(max(x - width / 2, 2.0), self.width - width - 2.0)
        if not self.canvas.is_free(start - 4, y, width + 8, _AXIS):
            return False
        now = self.waterfall.now
        if now is not None and start - 3 < self.x(self.waterfall.axis.position(now)) < start + width + 3:
            return False
        self.canvas.write(start, y, text, _AXIS, "chart-axis")
        return True

    # -- rows ----------------------------------------------------------------------------------------------

    def _span(self, bar: WaterfallBar) -> tuple[float, float]:
        """Where a bar begins and ends; a short one is as wide as can be seen."""
        axis = self.waterfall.axis
        start, end = self.x(axis.position(bar.start)), self.x(axis.position(bar.end))
        end = min(max(end, start + _MIN_BAR), self.right)
        return min(start, end - _MIN_BAR), end

    def _draw_bar(self, bar: WaterfallBar, place: _Place) -> None:
        start, end = self._span(bar)
        title = element("title", _bar_words(bar))
        x, y, width = start, place.bar_y, end - start
        if bar.look is BarLook.SOLID:
            if bar.ragged and width > 8:
                shape = _ragged(x, y, width)
                self.canvas.add(element("path", title, d=shape, class_=f"chart-bar chart-{bar.tone}"))
                return
            look = {"class_": f"chart-bar chart-{bar.tone}"}
        elif bar.look is BarLook.HATCHED:
            group = bar.group or WaitGroup.RESOURCE
            look = {"class_": f"chart-wait chart-wait-{group}", "fill": f"url(#{self.name}-{group})"}
        else:
            x, y, width = x + 0.5, y + 0.5, max(width - 1, 1.0)
            look = {"class_": f"chart-plan chart-{bar.tone}", "fill": "none", "stroke_dasharray": "4 3"}
        height = _BAR - 1 if bar.look is BarLook.PLANNED else _BAR
        self.canvas.add(element("rect", title, x=x, y=y, width=width, height=height, rx=2.0, **look))

    def _draw_mark(self, mark: WaterfallMark, place: _Place) -> None:
        x = self.x(self.waterfall.axis.position(mark.at))
        x = min(max(x, self.left + 1), self.right - 1)
        self.canvas.add(_mark_shape(mark, x, place.bar_y))

    def _write_row(self, row: WaterfallRow, place: _Place) -> None:
        left = _PAD + self._indent(row)
        sign = f"{row.sign} " if row.sign else ""
        length = brief(row.length) if row.bars and row.kind is not RowKind.PLAN else ""
        room = (self.width if self.narrow else self.left) - left - _PAD
        if self.narrow:
            room -= text_width(length, _DETAIL) + _GAP
        name = f"{sign}{row.name}"
        tone = "" if row.tone is None else f" chart-tone-{row.tone}"
        self.canvas.write(
            left,
            place.y + 17,
            fit(name, _NAME, room),
            _NAME,
            f"chart-name{tone}",
            href=self.links.of(row),
            whole=f"{row.name}: {row.detail}",
        )
        below = place.y + (52.0 if self.narrow and (row.bars or row.marks) else 32.0)
        for index, text in enumerate(place.details):
            self.canvas.write(left, below + index * _LINE, text, _DETAIL, "chart-detail")
        if length:
            y = place.y + 17 if self.narrow else place.bar_y + 11
            self.canvas.write(self.width - _PAD, y, length, _DETAIL, "chart-length", "end")
        if not self.narrow:
            self._label(row, place)

    def _label(self, row: WaterfallRow, place: _Place) -> None:
        """Write the cause of the longest bar within it, or beside the bars, on the side with room."""
        if row.kind in (RowKind.CHILD_JOBS, RowKind.ATTEMPTS) or not row.bars:
            return
        past = [bar for bar in row.bars if bar.look is not BarLook.PLANNED]
        bar = max(past or row.bars, key=lambda each: each.length)
        text = _label_text(bar, self.waterfall.axis)
        start, end = self._span(bar)
        width, y = text_width(text, _DETAIL), place.bar_y + 11
        spans = [self._span(each) for each in row.bars]
        marks = [self.x(self.waterfall.axis.position(mark.at)) for mark in row.marks]
        first = min([low for low, _ in spans] + [x - 6 for x in marks])
        last = max([high for _, high in spans] + [x + 6 for x in marks])
        if bar.look is BarLook.HATCHED and end - start > 1.4 * width + 4 * _GAP and not marks:
            middle = (start + end) / 2
            box = {"x": middle - width / 2 - 3, "y": y - 11, "width": width + 6, "height": _BAR}
            self.canvas.add(element("rect", **box, class_="chart-pill"))
            self.canvas.write(middle, y, text, _DETAIL, "chart-label", "middle")
        elif self.right - last > width + _GAP:
            self.canvas.write(last + _GAP, y, text, _DETAIL, "chart-label")
        elif first - self.left > width + _GAP:
            self.canvas.write(first - _GAP, y, text, _DETAIL, "chart-label", "end")

    # -- legend --------------------------------------------------------------------------------------------

    def _draw_legend(self, y: float) -> float:
        """Explain the looks that the drawing has; return where the drawing ends."""
        bars = [bar for row in self.waterfall.rows for bar in row.bars]
        x = _PAD
        for look, group, words in _LEGEND:
            if not any(bar.look is look and (group is None or bar.group is group) for bar in bars):
                continue
            width = 24 + text_width(words, _DETAIL) + 18
            if x > _PAD and x + width > self.width - _PAD:
                x, y = _PAD, y + 18
            self._draw_swatch(look, group, x, y)
            self.canvas.write(x + 24, y + 9, words, _DETAIL, "chart-detail")
            x += width
        return y + 22

    def _draw_swatch(self, look: BarLook, group: WaitGroup | None, x: float, y: float) -> None:
        box = {"x": x, "y": y, "width": 18.0, "height": 10.0, "rx": 2.0}
        if group is not None:
            shown = element(
                "rect", **box, class_=f"chart-wait chart-wait-{group}", fill=f"url(#{self.name}-{group})"
            )
        elif look is BarLook.SOLID:
            shown = element("rect", **box, class_="chart-bar chart-live")
        else:
            shown = element(
                "rect", **box, class_="chart-plan chart-live", fill="none", stroke_dasharray="4 3"
            )
        self.canvas.add(shown)


_LEGEND: tuple[tuple[BarLook, WaitGroup | None, str], ...] = (
    (BarLook.SOLID, None, "runs"),
    (BarLook.HATCHED, WaitGroup.PLANNED, "waits for a time"),
    (BarLook.HATCHED, WaitGroup.RESOURCE, "waits for an agent or a service"),
    (BarLook.HATCHED, WaitGroup.BLOCKED, "is held back"),
    (BarLook.HATCHED, WaitGroup.TRANSIT, "message on its way"),
    (BarLook.HATCHED, WaitGroup.SILENCE, "no heartbeat"),
    (BarLook.PLANNED, None, "planned"),
)


def draw_waterfall(
    waterfall: Waterfall, links: WaterfallLinks = NO_LINKS, *, name: str = "waterfall", narrow: bool = False
) -> Picture:
    """Draw a waterfall, `narrow` for a phone. `name` distinguishes the drawing on its page."""
    return _Drawing(waterfall, links, name, narrow=narrow).make()


def _bar_words(bar: WaterfallBar) -> str:
    """The cause of a bar and, unless that is a mere sign, its length."""
    return bar.text if _is_sign(bar) else f"{bar.text}, {brief(bar.length)}"


def _is_sign(bar: WaterfallBar) -> bool:
    return bar.look is BarLook.PLANNED and bar.ragged


def _label_text(bar: WaterfallBar, axis: FoldedAxis) -> str:
    folded = any(bar.start <= fold.start and fold.end <= bar.end for fold in axis.folds)
    length = brief(bar.length) if bar.length >= timedelta(milliseconds=1) else ""
    if _is_sign(bar):
        return bar.text
    if bar.look is BarLook.SOLID:
        return f"{bar.text}, {length}" if length else bar.text
    return f"{'⋯ ' if folded else ''}{length} {bar.text}".strip()


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def _pattern(name: str, group: WaitGroup) -> Markup:
    """The hatching of a group: each has an angle or a form of its own, so that colour is not needed."""
    size, turn, strokes = _HATCHES[group]
    ground = element("rect", width=size, height=size, class_=f"chart-hatch-ground chart-wait-{group}")
    return element(
        "pattern",
        ground,
        *(element("path", d=stroke, class_=f"chart-hatch chart-wait-{group}") for stroke in strokes),
        id=name,
        width=size,
        height=size,
        patternUnits="userSpaceOnUse",
        patternTransform=f"rotate({turn})" if turn else None,
    )


_HATCHES: dict[WaitGroup, tuple[float, int, Sequence[str]]] = {
    WaitGroup.PLANNED: (7.0, 45, ("M3.5 0V7",)),
    WaitGroup.RESOURCE: (5.0, -45, ("M2.5 0V5",)),
    WaitGroup.BLOCKED: (7.0, 45, ("M3.5 0V7", "M0 3.5H7")),
    WaitGroup.TRANSIT: (4.0, 0, ("M0 2H2",)),
    WaitGroup.SILENCE: (8.0, 0, ("M0 4Q2 1 4 4T8 4",)),
}
"""Size, angle and strokes of each hatching."""


def _ragged(x: float, y: float, width: float) -> str:
    """A bar whose right end is torn."""
    end, quarter = x + width, _BAR / 4
    teeth = [(end - (5 if step % 2 else 0), y + step * quarter) for step in range(5)]
    return f"{line_path([(x, y), *teeth, (x, y + _BAR)])}Z"


def _mark_shape(mark: WaterfallMark, x: float, y: float) -> Markup:
    """The sign of a moment; each kind has a form of its own."""
    middle, title = y + _BAR / 2, element("title", mark.text)
    match mark.kind:
        case MarkKind.HEARTBEAT:
            points, closed = [(x, y - 3), (x, y + _BAR + 3)], False
        case MarkKind.CHECKPOINT:
            points, closed = [(x, y + _BAR), (x, y - 7), (x + 8, y - 3.5), (x, y)], True
        case MarkKind.CANCEL:
            points, closed = (
                [
                    (x - 4, middle - 4),
                    (x + 4, middle + 4),
                    (x, middle),
                    (x + 4, middle - 4),
                    (x - 4, middle + 4),
                ],
                False,
            )
        case MarkKind.DEADLINE:
            points, closed = [(x - 3, y - 3), (x, y - 3), (x, y + _BAR + 3), (x - 3, y + _BAR + 3)], False
        case MarkKind.ACCEPTED | MarkKind.END:
            points, closed = [(x, middle - 6), (x + 6, middle), (x, middle + 6), (x - 6, middle)], True
    form = "flag" if mark.kind is MarkKind.CHECKPOINT else "closed" if closed else "open"
    look = f"chart-mark chart-mark-{form} chart-{mark.tone}"
    return element("path", title, d=line_path(points) + ("Z" if closed else ""), class_=look)


def _table(waterfall: Waterfall) -> Markup:
    """Bars and moments as a table, in words and with the time since the start."""
    start = waterfall.axis.start
    rows: list[tuple[str, ...]] = []
    for row in waterfall.rows:
        facts = [
            (
                bar.start,
                f"{bar.text}{' (planned)' if bar.look is BarLook.PLANNED else ''}",
                "" if _is_sign(bar) else brief(bar.length),
            )
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
