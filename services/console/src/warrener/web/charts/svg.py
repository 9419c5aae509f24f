"""SVG as text: elements that escape what they hold, and the width of words. Pure.

Looks are CSS classes and SVG attributes, never a `style`: the console's Content-Security-Policy refuses it.
"""

import re
from collections.abc import Iterable
from html import escape
from typing import NamedTuple

_REFUSED = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]"
)
_NARROW, _WIDE = frozenset(" .,:;|!'`ijlIftr()[]{}/\\-·"), frozenset("mwMW@%&—…⋯±→")
_DIGITS = frozenset("0123456789")
_EM = {"narrow": 0.41, "wide": 1.0, "capital": 0.77, "digit": 0.64, "plain": 0.635, "full": 1.1}
"""Widths of signs, those of DejaVu Sans: the fonts that pages use are narrower."""
ELLIPSIS = "…"


class Markup(str):
    """Text that is markup already: it is not escaped again."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def element(name: str, *content: str, **attributes: str | float | None) -> Markup:
    """Make an element. Content that is no Markup is escaped; an attribute that is None is left out.

    A name of an attribute ends with an underscore where it is a word of Python, and has hyphens for others.
    """
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(
        each if isinstance(each, Markup) else escape(clean(each), quote=False) for each in content
    )
    return Markup(f"<{name}{words}>{inner}</{name}>")


def join(parts: Iterable[str]) -> Markup:
    """Join elements and texts."""
    return Markup("".join(each if isinstance(each, Markup) else escape(clean(each)) for each in parts))


def clean(text: str) -> str:
    """The text with a sign in place of each character that XML refuses, or that turns the writing around."""
    return _REFUSED.sub("\ufffd", text)


def number(value: float) -> str:
    """A coordinate, to a hundredth of a pixel."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"


def _attribute(value: str | float) -> str:
    return escape(clean(value)) if isinstance(value, str) else number(value)


def link(href: str | None, label: str, *content: Markup) -> Markup:
    """Make a link within the console, else the content alone. Raises ValueError for another address."""
    if href is None:
        return join(content)
    if not href.startswith(("/", "#", "?")) or href.startswith(("//", "/\\")):
        raise ValueError(f"expected a link within the console, got {href!r}; begin it with /, # or ?")
    return element("a", *content, href=href, class_="chart-link", aria_label=label)


# -- texts -------------------------------------------------------------------------------------------------


class TextBox(NamedTuple):
    """A text that was drawn, and the room it takes at most; `y` is its base line."""

    x: float
    y: float
    width: float
    size: float
    text: str


def text_width(text: str, size: float) -> float:
    """The width that a text takes at most, in the fonts that browsers bring, at this size."""
    return size * sum(_EM[_width_class(sign)] for sign in text)


def _width_class(sign: str) -> str:
    if sign in _NARROW:
        return "narrow"
    if sign in _WIDE:
        return "wide"
    if sign > "\u2e7f":
        return "full"
    if sign in _DIGITS:
        return "digit"
    return "capital" if sign.isupper() or sign > "\u02af" else "plain"


def fit(text: str, size: float, width: float) -> str:
    """The text, or as much of its beginning as fits with an ellipsis; empty if not even two signs fit."""
    if text_width(text, size) <= width:
        return text
    room = width - text_width(ELLIPSIS, size)
    end = 0
    for sign in text:
        room -= text_width(sign, size)
        if room < 0:
            break
        end += 1
    return text[:end].rstrip() + ELLIPSIS if end > 1 else ""


def wrap(text: str, size: float, width: float, lines: int) -> list[str]:
    """Break a text between words into at most so many lines; the last one is cut if need be."""
    broken: list[str] = []
    words = text.split()
    while words and len(broken) < lines - 1:
        line = [words.pop(0)]
        while words and text_width(" ".join([*line, words[0]]), size) <= width:
            line.append(words.pop(0))
        broken.append(fit(" ".join(line), size, width))
    return [*broken, *([fit(" ".join(words), size, width)] if words else [])]


class Canvas:
    """Elements in the order of their drawing, and the texts among them, so that none covers another."""

    def __init__(self) -> None:
        self.parts: list[Markup] = []
        self.texts: list[TextBox] = []

    def add(self, *parts: Markup) -> None:
        """Add elements over those that are there."""
        self.parts += parts

    def write(  # noqa: PLR0917 - a text has a place, a size and a look
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        class_: str,
        anchor: str = "start",
        href: str | None = None,
        whole: str | None = None,
    ) -> None:
        """Write a text. `whole` is what a link is named by, if the text was cut."""
        if not text:
            return
        width = text_width(text, size)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        self.texts.append(TextBox(left, y, width, size, text))
        written = element(
            "text", text, x=x, y=y, class_=class_, text_anchor=None if anchor == "start" else anchor
        )
        self.add(link(href, whole or text, written))

    def is_free(self, x: float, y: float, width: float, size: float) -> bool:
        """True if no text is there yet."""
        return all(
            x + width <= box.x or box.x + box.width <= x or y - size >= box.y or box.y - box.size >= y
            for box in self.texts
        )


def line_path(points: Iterable[tuple[float, float]]) -> str:
    """The data of a path along these points."""
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
