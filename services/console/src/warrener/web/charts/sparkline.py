"""A line as small as a word, for tables: gaps where nothing was measured. Pure."""

from collections.abc import Sequence
from itertools import groupby

from warrener.render.tones import Tone
from warrener.web.charts.picture import Picture, draw, facts_table
from warrener.web.charts.svg import Canvas, element, line_path

_WIDTH, _HEIGHT, _PAD = 120.0, 24.0, 3.0


def draw_sparkline(
    values: Sequence[float | None], *, title: str, name: str, tone: Tone = Tone.LIVE, floor: float = 0.0
) -> Picture:
    """Draw the values at equal distances, from `floor` to the greatest, with a point at the last one."""
    measured = [value for value in values if value is not None]
    top = max([*measured, floor])
    height = (top - floor) or 1.0
    step = (_WIDTH - 2 * _PAD) / max(len(values) - 1, 1)
    points = [
        None
        if value is None
        else (
            _PAD + index * step,
            _HEIGHT - _PAD - (_HEIGHT - 2 * _PAD) * min(max((value - floor) / height, 0), 1),
        )
        for index, value in enumerate(values)
    ]
    canvas = Canvas()
    for there, group in groupby(points, lambda point: point is not None):
        line = [point for point in group if point is not None]
        if there and len(line) > 1:
            canvas.add(element("path", d=line_path(line), class_=f"chart-line chart-{tone}"))
        elif there:
            canvas.add(
                element("circle", cx=line[0][0], cy=line[0][1], r=1.6, class_=f"chart-point chart-{tone}")
            )
    last = next((point for point in reversed(points) if point is not None), None)
    if last is not None:
        canvas.add(element("circle", cx=last[0], cy=last[1], r=2.4, class_=f"chart-point chart-{tone}"))
    words = f"Newest {measured[-1]:g}, greatest {max(measured):g}." if measured else "Nothing was measured."
    rows = [(str(index + 1), "" if value is None else f"{value:g}") for index, value in enumerate(values)]
    table = facts_table(title, ("number", "value"), rows)
    return draw(canvas, table, (_WIDTH, _HEIGHT), name, (title, words), "chart-sparkline")
