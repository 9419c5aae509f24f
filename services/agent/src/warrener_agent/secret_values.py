"""Values of arguments that a signature marks as secrets, hidden in the texts of an attempt. Pure."""

import json
from collections.abc import Collection, Iterator
from typing import Any

from warrener_contracts.json_safety import is_array, is_object
from warrener_contracts.marks import WHOLE
from warrener_runtime.secrets import HIDDEN

_MIN_LENGTH = 4  # characters of a value that is looked for in texts; shorter ones are parts of many words
_MAX_DEPTH = 64


def marked_texts(names: Collection[str], document: Any) -> tuple[str, ...]:
    """Return the values of marked fields, and their lines, as texts to hide; the longest first."""
    found = {
        text
        for value in _marked_values(names, document, _MAX_DEPTH, is_marked=WHOLE in names)
        for text in (value, *value.splitlines())
        if len(text) >= _MIN_LENGTH
    }
    return tuple(sorted(found, key=len, reverse=True))


def _marked_values(names: Collection[str], value: Any, depth: int, *, is_marked: bool) -> Iterator[str]:
    if depth and is_object(value):
        for name, one in value.items():
            yield from _marked_values(names, one, depth - 1, is_marked=is_marked or name in names)
    elif depth and is_array(value):
        for one in value:
            yield from _marked_values(names, one, depth - 1, is_marked=is_marked)
    elif is_marked and isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def hide_texts(text: str, hidden: Collection[str]) -> str:
    """Hide these texts wherever they stand in another, also as Python and JSON quote them."""
    for one in hidden:
        for form in (one, repr(one)[1:-1], json.dumps(one)[1:-1]):
            text = text.replace(form, HIDDEN)
    return text
