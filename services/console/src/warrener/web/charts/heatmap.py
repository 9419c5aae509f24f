"""Ticks by day and hour: the more of them, the stronger the colour; failures as triangles. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo

from warrener.web.charts.picture import Picture, draw, facts_table
from warrener.web.charts.svg import Canvas, Markup, element, line_path

_LEFT, _TOP = 78.0, 22.0
_SMALL = 10.5  # size of texts
_LEVELS = 5
HOURS = 24


@dataclass(frozen=True, slots=True)
class HeatCell:
    """The ticks of one hour of a day, and how many of them went wrong."""

    day: date
    hour: int
    ticks: int
    failed: int = 0


def count_ticks(ticks: Iterable[tuple[datetime, bool]], zone: tzinfo = UTC) -> list[HeatCell]:
    """Count ticks by day and hour of a zone; the second of each is True if it went wrong.

    The hour that a clock repeats is one cell.
    """
    counts: dict[tuple[date, int], Counter[bool]] = defaultdict(Counter)
    for moment, failed in ticks:
        there = moment.astimezone(zone)
        counts[there.date(), there.hour][failed] += 1
    return [HeatCell(day, hour, each.total(), each[True]) for (day, hour), each in sorted(counts.items())]


def draw_heatmap(
    cells: Sequence[HeatCell],
    days: Sequence[date],
    *,
    title: str,
    name: str = "heatmap",
    narrow: bool = False,
) -> Picture:
    """Draw these days, one a row, in the order given; a cell of another day is left out."""
    width = 360.0 if narrow else 640.0
    left = 48.0 if narrow else _LEFT
    step = (width - left - 12) / HOURS
    tall = min(step, 18.0)
    canvas = Canvas()
    for hour in range(0, HOURS, 6 if narrow else 3):
        canvas.write(left + hour * step, _TOP - 7, f"{hour:02}:00", _SMALL, "chart-axis")
    known = {(cell.day, cell.hour): cell for cell in cells if cell.day in set(days)}
    most = max((cell.ticks for cell in known.values()), default=0)
    for row, day in enumerate(days):
        y = _TOP + row * (tall + 2)
        label = f"{day:%d %b}" if narrow else f"{day:%a %d %b}"
        if canvas.is_free(left - 6, y + tall - 4, 0, _SMALL) and row % _rows_per_label(tall) == 0:
            canvas.write(left - 6, y + tall / 2 + 4, label, _SMALL, "chart-axis", "end")
        for hour in range(HOURS):
            cell = known.get((day, hour), HeatCell(day, hour, 0))
            canvas.add(*_cell(cell, most, (left + hour * step, y), (step - 1.5, tall)))
    bottom = _TOP + len(days) * (tall + 2) + 6
    height = _draw_legend(canvas, left, bottom, most)
    failed = sum(cell.failed for cell in known.values())
    words = (title, f"{sum(cell.ticks for cell in known.values())} ticks, {failed} of them failed.")
    return draw(canvas, _table(title, known.values()), (width, height), name, words, "chart-heatmap")


def _rows_per_label(tall: float) -> int:
    return 1 if tall >= _SMALL else 2


def level(ticks: int, most: int) -> int:
    """The strength of a cell's colour: 0 without ticks, else from 1 to 5."""
    return 0 if ticks <= 0 else min(1 + ticks * _LEVELS // (most + 1), _LEVELS)


def _cell(cell: HeatCell, most: int, corner: tuple[float, float], size: tuple[float, float]) -> list[Markup]:
    (x, y), (width, height) = corner, size
    words = f"{cell.day:%Y-%m-%d} {cell.hour:02}:00, {cell.ticks} ticks"
    words += f", {cell.failed} failed" if cell.failed else ""
    square = element(
        "rect",
        element("title", words),
        x=x,
        y=y,
        width=width,
        height=height,
        rx=2.0,
        class_=f"chart-heat-{level(cell.ticks, most)}",
    )
    return [square, _triangle(x, y, min(width, height) * 0.72)] if cell.failed else [square]


def _triangle(x: float, y: float, size: float) -> Markup:
    return element("path", d=line_path([(x, y), (x + size, y), (x, y + size)]) + "Z", class_="chart-heat-bad")


def _draw_legend(canvas: Canvas, x: float, y: float, most: int) -> float:
    """Explain the colours; return where the drawing ends."""
    canvas.write(x, y + 10, "0", _SMALL, "chart-axis")
    at = x + 12
    for strength in range(_LEVELS + 1):
        canvas.add(
            element("rect", x=at, y=y, width=14.0, height=12.0, rx=2.0, class_=f"chart-heat-{strength}")
        )
        at += 16
    canvas.write(at + 4, y + 10, f"{most} ticks", _SMALL, "chart-axis")
    at += 24 + 7.0 * len(f"{most} ticks")
    canvas.add(_triangle(at, y, 10.0))
    canvas.write(at + 16, y + 10, "failed", _SMALL, "chart-axis")
    return y + 22


def _table(title: str, cells: Iterable[HeatCell]) -> Markup:
    rows = [
        (f"{cell.day:%Y-%m-%d} {cell.hour:02}:00", str(cell.ticks), str(cell.failed))
        for cell in cells
        if cell.ticks
    ]
    return facts_table(title, ("hour", "ticks", "failed"), rows)
