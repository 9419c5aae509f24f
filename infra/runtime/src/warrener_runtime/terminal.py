"""Escapes foreign text for terminals: control characters move the cursor, and hide what stands before."""

import re

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escape_controls(text: str) -> str:
    """Write C0 and C1 controls, marks of direction and half surrogate pairs as `\\x1b` or `\\u202e`; line
    ends and tabs stay."""
    return text if text.isascii() and text.isprintable() else _CONTROL.sub(_escaped, text)


def escape_json(text: str) -> str:
    """Escape the same in the text of a JSON document, which stays the same document."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
