"""Ticks by day and hour: the more of them, the stronger the colour; failures as triangles. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo

from warrener.web.charts.picture import Picture, facts_table
from warrener.web.charts.svg import Markup, element, join

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
    """Draw these days, one a row, in the order given; a cell of another day is left out."""
    known = {place: count for place, count in cells.items() if place[0] in set(days)}
    most = max((count.total() for count in known.values()), default=0)
    every = sum(known.values(), Counter[bool]())
    words = f"{title}. {every.total()} ticks, {every[True]} of them failed."
    head = (
        element("th", _name(f"{hour:02}:00", is_short=hour % (2 * _HOURS_NAMED) == 0), colspan=_HOURS_NAMED)
        for hour in range(0, HOURS, _HOURS_NAMED)
    )
    rows = [element("tr", element("th"), *head)]
    for day in days:
        line = (_cell((day, hour), known.get((day, hour), Counter()), most) for hour in range(HOURS))
        label = element("th", _name(f"{day:%a} ", is_short=False), f"{day:%d %b}")
        rows.append(element("tr", label, *line))
    drawing = element("table", *rows, class_="chart chart-heatmap", role="img", aria_label=words)
    facts = [
        (_hour(place), f"{count.total()}", f"{count[True]}")
        for place, count in known.items()
        if count.total()
    ]
    table = facts_table(title, ("hour", "ticks", "failed"), facts)
    return Picture(join([drawing, _legend(most)]), table, fills_its_place=True)


def _hour(place: tuple[date, int]) -> str:
    return f"{place[0]:%Y-%m-%d} {place[1]:02}:00"


def _name(words: str, *, is_short: bool) -> Markup:
    return element("span", words, class_=None if is_short else "chart-wide")


def level(ticks: int, most: int) -> int:
    """The strength of a cell's colour: 0 without ticks, else from 1 to 5."""
    return 0 if ticks <= 0 else min(1 + ticks * _LEVELS // (most + 1), _LEVELS)


def _cell(place: tuple[date, int], count: Counter[bool], most: int) -> Markup:
    words = f"{_hour(place)}, {count.total()} ticks"
    words += f", {count[True]} failed" if count[True] else ""
    look = f"chart-heat-{level(count.total(), most)}" + (" chart-heat-bad" if count[True] else "")
    return element("td", title=words, class_=look)


def _legend(most: int) -> Markup:
    """Explain the colours."""
    swatches = (element("i", class_=f"chart-heat-{strength}") for strength in range(_LEVELS + 1))
    ticks = element("li", "0 ", *swatches, f" {most} ticks")
    failed = element("li", element("i", class_="chart-heat-bad"), " failed")
    return element("ul", ticks, failed, class_="chart-legend", aria_hidden="true")
