"""Charts as small as a table: a line over time, a bar of parts of a whole, ticks by day and hour. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from itertools import groupby

from warrener.render.tones import Tone
from warrener.web.charts.picture import Picture, draw, facts_table
from warrener.web.charts.svg import Markup, element, join, line_path

_WIDTH, _HEIGHT, _PAD, _FLOOR = 120.0, 24.0, 3.0, 21.0
_BAR_WIDTH, _BAR_HEIGHT, _BAR_GAP, _MIN_PART = 600.0, 12.0, 2.0, 4.0
_MAX_POINTS = 30
Segment = tuple[str, Tone, int]  # words, tone and number of one part


def draw_sparkline(
    values: Sequence[float | None], *, title: str, name: str, tone: Tone = Tone.LIVE, floor: float = 0.0
) -> Picture:
    """Draw the values at equal distances, from `floor` to the greatest, with a point at the last one and gaps
    where nothing was measured."""
    measured = [value for value in values if value is not None]
    height = (max([*measured, floor]) - floor) or 1.0
    step = (_WIDTH - 2 * _PAD) / max(len(values) - 1, 1)
    parts: list[Markup] = []
    last = None
    for is_gap, group in groupby(enumerate(values), lambda each: each[1] is None):
        if is_gap:
            continue
        shares = [(place, min(max(((value or 0.0) - floor) / height, 0), 1)) for place, value in group]
        line = [(_PAD + place * step, _FLOOR - (_FLOOR - _PAD) * share) for place, share in shares]
        last = line[-1]
        if len(line) > 1:
            parts.append(element("path", d=line_path(line), class_=f"chart-line chart-{tone}"))
        else:
            parts.append(element("circle", cx=last[0], cy=last[1], r=1.6, class_=f"chart-point chart-{tone}"))
    if last is not None:
        parts.append(element("circle", cx=last[0], cy=last[1], r=2.4, class_=f"chart-point chart-{tone}"))
    words = f"Newest {measured[-1]:g}, greatest {max(measured):g}." if measured else "Nothing was measured."
    rows = [(str(index + 1), "" if value is None else f"{value:g}") for index, value in enumerate(values)]
    drawing = draw(parts, (_WIDTH, _HEIGHT), name, (title, words), "chart-sparkline", scaled="xMidYMid")
    return Picture(drawing, facts_table(title, ("number", "value"), rows))


def draw_counts(counts: Sequence[int], title: str, name: str) -> Picture:
    """Draw counts over time for the line of a table: sums of neighbours, if there are many."""
    size = -(-len(counts) // _MAX_POINTS)
    values = [float(sum(counts[at : at + size])) for at in range(0, len(counts), size)]
    return draw_sparkline(values, title=title, name=name)


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


# -- ticks by day and hour -----------------------------------------------------------------------------------

_LEVELS = 5
HOURS = 24
_HOURS_NAMED = 3  # from one name of an hour to the next; a narrow drawing has every second one
HeatCells = Mapping[tuple[date, int], Counter[bool]]
"""The ticks of hours of days: True counts those that went wrong."""


def count_ticks(ticks: Iterable[tuple[datetime, bool]], zone: tzinfo = UTC) -> HeatCells:
    """Count ticks by day and hour of a zone; the second of each is True if it went wrong.

    The hour that a clock repeats is one cell.
    """
    counts: dict[tuple[date, int], Counter[bool]] = defaultdict(Counter)
    for moment, failed in ticks:
        there = moment.astimezone(zone)
        counts[there.date(), there.hour][failed] += 1
    return dict(sorted(counts.items()))


def draw_heatmap(cells: HeatCells, days: Sequence[date], *, title: str) -> Picture:
    """Draw these days, one a row, in the order given: the more ticks, the stronger the colour; failures as
    triangles. A cell of another day is left out."""
    known = {place: count for place, count in cells.items() if place[0] in set(days)}
    most = max((count.total() for count in known.values()), default=0)
    every = sum(known.values(), Counter[bool]())
    head = [element("th")]
    for hour in range(0, HOURS, _HOURS_NAMED):
        look = None if hour % (2 * _HOURS_NAMED) == 0 else "chart-wide"
        head.append(element("th", element("span", f"{hour:02}:00", class_=look), colspan=_HOURS_NAMED))
    rows = [element("tr", *head)]
    for day in days:
        line = (_cell((day, hour), known.get((day, hour), Counter()), most) for hour in range(HOURS))
        label = element("th", element("span", f"{day:%a} ", class_="chart-wide"), f"{day:%d %b}")
        rows.append(element("tr", label, *line))
    words = f"{title}. {every.total()} ticks, {every[True]} of them failed."
    drawing = element("table", *rows, class_="chart chart-heatmap", role="img", aria_label=words)
    counted = ((_hour(place), count.total(), count[True]) for place, count in known.items())
    facts = [(hour, f"{ticks}", f"{failed}") for hour, ticks, failed in counted if ticks]
    swatches = (element("i", class_=f"chart-heat-{strength}") for strength in range(_LEVELS + 1))
    by_strength = element("li", "0 ", *swatches, f" {most} ticks")
    bad = element("li", element("i", class_="chart-heat-bad"), " failed")
    colours = element("ul", by_strength, bad, class_="chart-legend", aria_hidden="true")
    table = facts_table(title, ("hour", "ticks", "failed"), facts)
    return Picture(join([drawing, colours]), table, fills_its_place=True)


def _hour(place: tuple[date, int]) -> str:
    return f"{place[0]:%Y-%m-%d} {place[1]:02}:00"


def level(ticks: int, most: int) -> int:
    """The strength of a cell's colour: 0 without ticks, else from 1 to 5."""
    return 0 if ticks <= 0 else min(1 + ticks * _LEVELS // (most + 1), _LEVELS)


def _cell(place: tuple[date, int], count: Counter[bool], most: int) -> Markup:
    words = f"{_hour(place)}, {count.total()} ticks"
    words += f", {count[True]} failed" if count[True] else ""
    look = f"chart-heat-{level(count.total(), most)}" + (" chart-heat-bad" if count[True] else "")
    return element("td", title=words, class_=look)
