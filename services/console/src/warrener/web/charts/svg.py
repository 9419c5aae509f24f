"""Markup as text: elements of SVG and HTML that escape what they hold. Pure.

Looks are CSS classes and SVG attributes, never a `style`: the console's Content-Security-Policy refuses it.
"""

import re
from collections.abc import Iterable
from html import escape

_REFUSED = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]"
)


Attributes = dict[str, str | float]
"""Attributes of an element, where several elements share them or they would make a line long."""


class Markup(str):
    """Text that is markup already: it is not escaped again."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def element(name: str, *content: str, **attributes: str | float | None) -> Markup:
    """Make an element. Content that is no Markup is escaped; an attribute that is None is left out.

    A name of an attribute ends with an underscore where it is a word of Python, and has hyphens for others.
    """
    words = ""
    for key, value in attributes.items():
        if value is not None:
            text = escape(_clean(value)) if isinstance(value, str) else _number(value)
            words += f' {key.rstrip("_").replace("_", "-")}="{text}"'
    return Markup(f"<{name}{words}>{join(content)}</{name}>")


def join(parts: Iterable[str]) -> Markup:
    """Join elements and texts."""
    return Markup(
        "".join(each if isinstance(each, Markup) else escape(_clean(each), quote=False) for each in parts)
    )


def _clean(text: str) -> str:
    """The text with a sign in place of each character that XML refuses, or that turns the writing around."""
    return _REFUSED.sub("\ufffd", text)


def _number(value: float) -> str:
    """A coordinate, to a hundredth of a pixel."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"


def percent(share: float) -> str:
    """A coordinate as a share of the drawing's width."""
    return f"{_number(share * 100)}%"


def link(href: str | None, label: str, *content: str) -> Markup:
    """Make a link within the console, else the content alone. Raises ValueError for another address."""
    if href is None:
        return join(content)
    if not href.startswith(("/", "#", "?")) or href.startswith(("//", "/\\")):
        raise ValueError(f"expected a link within the console, got {href!r}; begin it with /, # or ?")
    return element("a", *content, href=href, class_="chart-link", aria_label=label)


def line_path(points: Iterable[tuple[float, float]]) -> str:
    """The data of a path along these points."""
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points)
