"""A bar of parts of a whole: how far a redrive is. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from warrener.render.tones import Tone
from warrener.web.charts.picture import Picture, draw, facts_table
from warrener.web.charts.svg import Canvas, Markup, element

_WIDTH, _HEIGHT, _GAP, _LEAST = 600.0, 12.0, 2.0, 4.0
Segment = tuple[str, Tone, int]
"""Words, tone and number of one part."""


def draw_segments(segments: Sequence[Segment], *, title: str, name: str) -> Picture:
    """Draw the parts beside each other, each as wide as its share, and none too narrow to be seen."""
    shown = [segment for segment in segments if segment[2] > 0]
    total = sum(count for _, _, count in shown) or 1
    room = _WIDTH - _GAP * max(len(shown) - 1, 0)
    widths = [max(room * count / total, _LEAST) for _, _, count in shown]
    scale = room / sum(widths) if widths else 1.0
    canvas, x = Canvas(), 0.0
    if not shown:
        canvas.add(element("rect", x=0, y=0, width=_WIDTH, height=_HEIGHT, rx=3, class_="chart-fold"))
    for (words, tone, count), width in zip(shown, widths, strict=True):
        label = element("title", f"{words}: {count:,}")
        canvas.add(
            element(
                "rect",
                label,
                x=x,
                y=0,
                width=width * scale,
                height=_HEIGHT,
                rx=3,
                class_=f"chart-bar chart-{tone}",
            )
        )
        x += width * scale + _GAP
    rows = [(words, f"{count:,}") for words, _, count in shown]
    about = ", ".join(f"{count:,} {words}" for words, _, count in shown) or "Nothing yet."
    table = facts_table(title, ("state", "number"), rows)
    drawn = draw(canvas, table, (_WIDTH, _HEIGHT), name, (title, about), "chart-segments")
    # As wide as its place, whatever its height.
    return replace(drawn, svg=Markup(drawn.svg.replace("<svg ", '<svg preserveAspectRatio="none" ', 1)))
