"""A chart as a page takes it: its drawing, and a table of the same facts for screen readers. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from warrener.web.charts.svg import Canvas, Markup, TextBox, element, join


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart. A template writes it as `{{ picture }}`: its markup is escaped already.

    `texts` are the texts of the drawing and their places.
    """

    svg: Markup
    table: Markup
    width: float
    height: float
    texts: tuple[TextBox, ...] = ()

    def __html__(self) -> str:
        hidden = element("div", self.table, class_="chart-facts")
        return element("figure", self.svg, hidden, class_="chart-figure")

    def standalone(self, stylesheet: str) -> str:
        """The drawing as a file of its own."""
        style = element("style", Markup(f"<![CDATA[{stylesheet}]]>"))
        head, end, rest = self.svg.partition(">")
        return f"{head}{end}{style}{rest}"


def for_all_widths(wide: Picture, narrow: Picture) -> Markup:
    """Both drawings and one table: the style sheet selects by the width of the window.

    The two need names of their own, because identifiers are unique on a page.
    """
    return element(
        "figure",
        element("div", wide.svg, class_="chart-wide"),
        element("div", narrow.svg, class_="chart-narrow"),
        element("div", wide.table, class_="chart-facts"),
        class_="chart-figure",
    )


def draw(  # noqa: PLR0917 - the parts of one picture
    canvas: Canvas,
    table: Markup,
    size: tuple[float, float],
    name: str,
    words: tuple[str, str],
    class_: str,
    *,
    linked: bool = False,
) -> Picture:
    """Put a drawing together. `name` distinguishes it on its page, `words` are its title and description.

    A drawing with links is a group, because the content of an image has no links for a screen reader.
    """
    width, height = size
    title, about = f"{name}-title", f"{name}-about"
    svg = element(
        "svg",
        element("title", words[0], id=title),
        element("desc", words[1], id=about),
        *(_hide_drawing(canvas.parts) if linked else canvas.parts),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        class_=f"chart {class_}",
        role="group" if linked else "img",
        aria_labelledby=title,
        aria_describedby=about,
    )
    return Picture(svg, table, width, height, tuple(canvas.texts))


def _hide_drawing(parts: Iterable[Markup]) -> Iterator[Markup]:
    """Hide all but the links from screen readers, which have the table."""
    for is_link, group in groupby(parts, lambda part: part.startswith("<a ")):
        together = list(group)
        yield from together if is_link else (element("g", *together, aria_hidden="true"),)


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
