"""JSON documents and texts in a form that every database can store.

Documents (arguments, results, policies, errors) are stored as JSON text, not as `jsonb`: PostgreSQL's jsonb
refuses NUL characters, lone surrogates and NaN, and one job with such a value would break a batch of a
thousand. Text preserves every byte, and is written faster."""

import json
import re
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

ESCAPE = "\x1a"
"""In a stored text it stands only before an escaped character."""

# PostgreSQL cannot store NUL in text, UTF-8 no lone surrogates. SUB (0x1a) begins an escape, so it is escaped
# too.
_UNSTORABLE = re.compile("[\x00\x1a\ud800-\udfff]")
_ESCAPED = re.compile("\x1a([0-9a-f]{4})")


def encode(document: Any) -> str:
    """Write a document as JSON text. Lone surrogates and NaN survive."""
    try:
        return to_json(document, inf_nan_mode="constants").decode()
    except (PydanticSerializationError, UnicodeError):
        return json.dumps(document)  # escapes a lone surrogate, which the fast path refuses


def decode(text: str | bytes) -> Any:
    """Reverse `encode`."""
    try:
        return from_json(text)
    except ValueError:
        return json.loads(text)


def escape(text: str) -> str:
    """`text` without the characters that a database refuses; `unescape` reverses it.

    Different texts stay different, so that unique keys keep their meaning.
    """
    if is_plain(text) or _UNSTORABLE.search(text) is None:
        return text
    return _UNSTORABLE.sub(lambda found: f"\x1a{ord(found[0]):04x}", text)


def is_plain(text: str) -> bool:
    """True if every database can certainly store `text` as it is; a cheap check."""
    return text.isascii() and "\x00" not in text and "\x1a" not in text


def unescape(text: str) -> str:
    """Reverse `escape`."""
    if ESCAPE not in text:
        return text
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
