"""JSON documents and texts in the form in which every database can keep them.

Documents (arguments, results, policies, errors) are kept as JSON text, not as `jsonb`: PostgreSQL's jsonb
refuses NUL characters, lone surrogates and NaN, and one job that carries such a thing would break a batch of
a thousand. Text keeps what came, byte for byte, and is written faster.
"""

import json
import re
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

ESCAPE = "\x1a"
"""What stands in no stored text but before an escaped character."""

# PostgreSQL cannot hold NUL in text, UTF-8 no lone surrogates. SUB (0x1a) announces an escape, so it is
# escaped too.
_UNSTORABLE = re.compile("[\x00\x1a\ud800-\udfff]")
_ESCAPED = re.compile("\x1a([0-9a-f]{4})")


def encode(document: Any) -> str:
    """`document` as JSON text. Lone surrogates and NaN survive; so does everything that JSON knows."""
    try:
        return to_json(document, inf_nan_mode="constants").decode()
    except (PydanticSerializationError, UnicodeError):
        return json.dumps(document)  # writes a lone surrogate as its escape, where the fast path refuses it


def decode(text: str | bytes) -> Any:
    """The document that `encode` made this text of."""
    try:
        return from_json(text)
    except ValueError:
        return json.loads(text)


def escape(text: str) -> str:
    """`text` without the characters that a database refuses; `unescape` gives it back.

    Different texts stay different, so that unique keys keep their meaning.
    """
    if is_plain(text) or _UNSTORABLE.search(text) is None:
        return text
    return _UNSTORABLE.sub(lambda found: f"\x1a{ord(found[0]):04x}", text)


def is_plain(text: str) -> bool:
    """Whether `text` is one that every database takes as it is: cheap, and right when it says yes."""
    return text.isascii() and "\x00" not in text and "\x1a" not in text


def unescape(text: str) -> str:
    """What `escape` was given."""
    if ESCAPE not in text:
        return text
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
