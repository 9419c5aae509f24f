"""Short strings: names, keys and types, of at most 255 bytes.

Bytes that are not UTF-8 come from others' tools; they are kept as surrogates and go out as they came in.
"""

from functools import lru_cache

MAX_LENGTH = 255


def encode(text: str) -> bytes:
    """Length and bytes. Raises ValueError where it is too long."""
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) > MAX_LENGTH:
        raise ValueError(
            f"expected at most {MAX_LENGTH} bytes in a short string, got {len(raw)}: {text[:40]!r}…"
        )
    return b"%c%b" % (len(raw), raw)


encode_cached = lru_cache(maxsize=4096)(encode)
"""For those that many messages share: exchanges, content types, types, names of headers."""


def decode(raw: bytes) -> str:
    """The text of bytes without their length."""
    return raw.decode("utf-8", "surrogateescape")


decode_cached = lru_cache(maxsize=4096)(decode)
"""For those that many messages share: one text for all of them, and nothing to decode."""
