"""Ticks by day and hour: the more of them, the stronger the colour; failures as triangles. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo

from warrener.web.charts.picture import Picture, facts_table
from warrener.web.charts.svg import Markup, element, join

_LEVELS = 5
HOURS = 24
_HOURS_NAMED = 3  # from one name of an hour to the next; a narrow drawing has every second one


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


def draw_heatmap(cells: Sequence[HeatCell], days: Sequence[date], *, title: str) -> Picture:
    """Draw these days, one a row, in the order given; a cell of another day is left out."""
    known = {(cell.day, cell.hour): cell for cell in cells if cell.day in set(days)}
    most = max((cell.ticks for cell in known.values()), default=0)
    failed = sum(cell.failed for cell in known.values())
    words = f"{title}. {sum(cell.ticks for cell in known.values())} ticks, {failed} of them failed."
    head = (
        element("th", _name(f"{hour:02}:00", is_short=hour % (2 * _HOURS_NAMED) == 0), colspan=_HOURS_NAMED)
        for hour in range(0, HOURS, _HOURS_NAMED)
    )
    rows = [element("tr", element("th"), *head)]
    for day in days:
        line = (_cell(known.get((day, hour), HeatCell(day, hour, 0)), most) for hour in range(HOURS))
        label = element("th", _name(f"{day:%a} ", is_short=False), f"{day:%d %b}")
        rows.append(element("tr", label, *line))
    drawing = element("table", *rows, class_="chart chart-heatmap", role="img", aria_label=words)
    return Picture(join([drawing, _legend(most)]), _table(title, known.values()), fills_its_place=True)


def _name(words: str, *, is_short: bool) -> Markup:
    return element("span", words, class_=None if is_short else "chart-wide")


def level(ticks: int, most: int) -> int:
    """The strength of a cell's colour: 0 without ticks, else from 1 to 5."""
    return 0 if ticks <= 0 else min(1 + ticks * _LEVELS // (most + 1), _LEVELS)


def _cell(cell: HeatCell, most: int) -> Markup:
    words = f"{cell.day:%Y-%m-%d} {cell.hour:02}:00, {cell.ticks} ticks"
    words += f", {cell.failed} failed" if cell.failed else ""
    look = f"chart-heat-{level(cell.ticks, most)}" + (" chart-heat-bad" if cell.failed else "")
    return element("td", title=words, class_=look)


def _legend(most: int) -> Markup:
    """Explain the colours."""
    swatches = (element("i", class_=f"chart-heat-{strength}") for strength in range(_LEVELS + 1))
    ticks = element("li", "0 ", *swatches, f" {most} ticks")
    failed = element("li", element("i", class_="chart-heat-bad"), " failed")
    return element("ul", ticks, failed, class_="chart-legend", aria_hidden="true")


def _table(title: str, cells: Iterable[HeatCell]) -> Markup:
    rows = [
        (f"{cell.day:%Y-%m-%d} {cell.hour:02}:00", str(cell.ticks), str(cell.failed))
        for cell in cells
        if cell.ticks
    ]
    return facts_table(title, ("hour", "ticks", "failed"), rows)
