"""A chart as a page takes it: one drawing for all widths, and a table of its facts for screen readers. Pure.

Drawings that fill their place have their columns in percent. A label that has room on a wide place alone has
the class `chart-wide`, one for a narrow place alone `chart-narrow`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from warrener.web.charts.svg import Markup, element, join

Label = tuple[float, str]  # where a text stands, as a share of the width, and the text
_WIDTHS = {"chart-wide": 508.0, "chart-narrow": 220.0}
"""Least widths, in pixels, of a plot in a wide place and in a narrow one: `charts.css` decides them."""
_GAP = 8.0  # between texts
_OVERHANG = 24.0  # beyond an end of the plot, of a text around its place
_PLAIN = frozenset("abcdefghijklnopqrstuvxyz0123456789 .,:;!?/|\\_*'\"()[]{}$-\u202f")
BESIDE = (-4.0, 10.0)  # how far a text at the left of its place ends from it, and one at the right begins


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart. A template writes it as `{{ picture }}`: its markup is escaped already."""

    drawing: Markup
    table: Markup
    fills_its_place: bool = False

    def __html__(self) -> str:
        hidden = element("div", self.table, class_="chart-facts")
        look = "chart-figure chart-fluid" if self.fills_its_place else "chart-figure"
        return element("figure", self.drawing, hidden, class_=look)


def draw(
    parts: Iterable[Markup],
    size: tuple[float | str, float],
    name: str,
    words: tuple[str, str],
    class_: str,
    *,
    linked: bool = False,
    scaled: str | None = None,
) -> Markup:
    """Put an SVG together. `name` distinguishes it on its page, `words` are its title and description.

    A drawing with links is a group, because the content of an image has no links for a screen reader: all
    else in it has to be hidden from the reader, who has the table.
    `scaled` fits the drawing into another size: a value of preserveAspectRatio.
    """
    width, height = size
    title, about = f"{name}-title", f"{name}-about"
    return element(
        "svg",
        element("title", words[0], id=title),
        element("desc", words[1], id=about),
        *parts,
        viewBox=f"0 0 {width:g} {height:g}" if scaled else None,
        preserveAspectRatio=scaled,
        width=width,
        height=height,
        class_=f"chart {class_}",
        role="group" if linked else "img",
        aria_labelledby=title,
        aria_describedby=about,
    )


def stretch(height: float, *parts: Markup) -> Markup:
    """Fit paths to the width: their columns go from 0 to 1000."""
    box = f"0 0 1000 {height:g}"
    return element(
        "svg", *parts, viewBox=box, preserveAspectRatio="none", height=height, class_="chart-stretch"
    )


def place_labels(
    wide: Sequence[Label], narrow: Sequence[Label] | None = None, *, beside: bool = False
) -> Iterator[tuple[float, str, str]]:
    """Choose labels for a wide place and for a narrow one, without each that would cover one before it; the
    last value is the class of a label that only one of them has. A label is around its place, or `beside` it:
    at the right in the first half of the width, else at the left, if there is room."""
    chosen = {
        look: _without_covering(labels, _WIDTHS[look], beside=beside)
        for look, labels in (("chart-wide", wide), ("chart-narrow", wide if narrow is None else narrow))
    }
    for label in dict.fromkeys(label for labels in chosen.values() for label in labels):
        looks = [look for look, labels in chosen.items() if label in labels]
        yield *label, looks[0] if len(looks) == 1 else ""


def _without_covering(labels: Iterable[Label], width: float, *, beside: bool) -> list[Label]:
    placed: dict[Label, tuple[float, float]] = {}
    for x, text in labels:
        room, start = text_width(text), x * width
        if not beside:
            start -= room / 2
        else:
            start += BESIDE[0] - room if x > 0.5 else BESIDE[1]
        end = start + room
        over = 0.0 if beside else _OVERHANG
        fits = start >= -over and end <= width + over
        if fits and all(end + _GAP <= left or right + _GAP <= start for left, right in placed.values()):
            placed[x, text] = start, end
    return list(placed)


def text_width(text: str) -> float:
    """The pixels that a text of a chart takes at most, in the fonts that browsers bring."""
    return sum(
        7.1 if sign in _PLAIN else 8.8 if sign.isupper() and sign not in "MW" else 12.1 for sign in text
    )


def legend(entries: Iterable[tuple[Markup, str]]) -> Markup:
    """Explain the looks of a drawing by swatches of 18 times 10 pixels."""
    lines = (
        element("li", element("svg", swatch, width=18, height=10, class_="chart"), words)
        for swatch, words in entries
    )
    return element("ul", *lines, class_="chart-legend", aria_hidden="true")


def facts_table(caption: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Make a table whose first column names its rows."""
    head = element("tr", *(element("th", name, scope="col") for name in header))
    body = [
        element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in rest))
        for first, *rest in rows
    ]
    return element(
        "table",
        element("caption", caption),
        element("thead", head),
        element("tbody", join(body)),
        class_="chart-table",
    )
