"""Charts as small as a line of a table: a line over time, and a bar of the parts of a whole. Pure."""

from collections.abc import Sequence
from itertools import groupby

from warrener.render.tones import Tone
from warrener.web.charts.picture import Picture, draw, facts_table
from warrener.web.charts.svg import Markup, element, line_path

_WIDTH, _HEIGHT, _PAD = 120.0, 24.0, 3.0
_BAR_WIDTH, _BAR_HEIGHT, _BAR_GAP, _MIN_PART = 600.0, 12.0, 2.0, 4.0
Segment = tuple[str, Tone, int]
"""Words, tone and number of one part."""


def draw_sparkline(
    values: Sequence[float | None], *, title: str, name: str, tone: Tone = Tone.LIVE, floor: float = 0.0
) -> Picture:
    """Draw the values at equal distances, from `floor` to the greatest, with a point at the last one and gaps
    where nothing was measured."""
    measured = [value for value in values if value is not None]
    height = (max([*measured, floor]) - floor) or 1.0
    step = (_WIDTH - 2 * _PAD) / max(len(values) - 1, 1)
    points = [
        (
            _PAD + index * step,
            _HEIGHT - _PAD - (_HEIGHT - 2 * _PAD) * min(max((value - floor) / height, 0), 1),
        )
        if value is not None
        else None
        for index, value in enumerate(values)
    ]
    parts: list[Markup] = []
    last = None
    for _, group in groupby(points, lambda point: point is not None):
        line = [point for point in group if point is not None]
        last = line[-1] if line else last
        if len(line) > 1:
            parts.append(element("path", d=line_path(line), class_=f"chart-line chart-{tone}"))
        elif line:
            parts.append(
                element("circle", cx=line[0][0], cy=line[0][1], r=1.6, class_=f"chart-point chart-{tone}")
            )
    if last is not None:
        parts.append(element("circle", cx=last[0], cy=last[1], r=2.4, class_=f"chart-point chart-{tone}"))
    words = f"Newest {measured[-1]:g}, greatest {max(measured):g}." if measured else "Nothing was measured."
    rows = [(str(index + 1), "" if value is None else f"{value:g}") for index, value in enumerate(values)]
    drawing = draw(parts, (_WIDTH, _HEIGHT), name, (title, words), "chart-sparkline", scaled="xMidYMid")
    return Picture(drawing, facts_table(title, ("number", "value"), rows))


def draw_segments(segments: Sequence[Segment], *, title: str, name: str) -> Picture:
    """Draw the parts beside each other, each as wide as its share, and none too narrow to be seen."""
    shown = [segment for segment in segments if segment[2] > 0]
    total = sum(count for _, _, count in shown) or 1
    room = _BAR_WIDTH - _BAR_GAP * max(len(shown) - 1, 0)
    widths = [max(room * count / total, _MIN_PART) for _, _, count in shown]
    scale = room / sum(widths) if widths else 1.0
    parts: list[Markup] = []
    x = 0.0
    for (words, tone, count), width in zip(shown, widths, strict=True):
        box = {"x": x, "width": width * scale, "height": _BAR_HEIGHT, "rx": 3}
        label = element("title", f"{words}: {count:,}")
        parts.append(element("rect", label, **box, class_=f"chart-bar chart-{tone}"))
        x += width * scale + _BAR_GAP
    if not parts:
        parts.append(element("rect", width=_BAR_WIDTH, height=_BAR_HEIGHT, rx=3, class_="chart-fold"))
    rows = [(words, f"{count:,}") for words, _, count in shown]
    about = ", ".join(f"{count:,} {words}" for words, _, count in shown) or "Nothing yet."
    drawing = draw(parts, (_BAR_WIDTH, _BAR_HEIGHT), name, (title, about), "chart-segments", scaled="none")
    return Picture(drawing, facts_table(title, ("state", "number"), rows))
