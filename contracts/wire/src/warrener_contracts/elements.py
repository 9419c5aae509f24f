"""The elements of a JSON array, each as the text that stood there."""

from functools import cached_property
from json import JSONDecoder

_BLANK = " \t\n\r"
# Numbers are left as text: what is looked for is where a value ends, not what it is.
_DECODER = JSONDecoder(strict=False, parse_int=str, parse_float=str)


class Elements:
    """The elements of the array in `body`; looked for when the first of them is asked for, and once.

    `body` must have been read as an array before.
    """

    def __init__(self, body: bytes) -> None:
        self.body = body

    def __getitem__(self, place: int) -> bytes:
        return self.texts[place]

    @cached_property
    def texts(self) -> list[bytes]:
        """All of them, in order."""
        text = self.body.decode(errors="surrogateescape")
        found: list[bytes] = []
        at = _skip(text, text.index("[") + 1)
        while text[at] != "]":
            _, end = _DECODER.raw_decode(text, at)
            found.append(text[at:end].encode(errors="surrogateescape"))
            at = _skip(text, end)
            if text[at] == ",":
                at = _skip(text, at + 1)
        return found


def _skip(text: str, at: int) -> int:
    while text[at] in _BLANK:
        at += 1
    return at
