"""Find values that JSON or Python allows and a database refuses.

PostgreSQL stores no U+0000, JSON has no NaN and no infinity (1e400 reads as one), and half a surrogate pair
is no character. Such a value is refused on arrival, because a later step would refuse it again and again.
"""

import math
from collections.abc import Iterator
from typing import Any, TypeGuard

_NUL = "\0"
_BACKSLASH, _N, _I = b"\\NI"


def may_be_unsafe(body: bytes) -> bool:
    """True if JSON `body` may hold U+0000, NaN or infinity. Cheap; False is certain."""
    # One byte is found many times faster than several, and most bodies hold none of these.
    return (
        (_BACKSLASH in body and b"\\u0000" in body)
        or (_N in body and b"NaN" in body)
        or (_I in body and b"Infinity" in body)
    )


def find_unsafe_value(value: object) -> str | None:
    """The place and kind of the first unsafe value in a JSON-like `value`; None if all are safe."""
    return None if _is_safe(value) else next(_find_problems(value), None)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    return isinstance(value, list | tuple)


def sanitize_text(text: str, limit: int) -> str:
    """Replace unsafe characters by U+FFFD and cut `text` in the middle to `limit` characters."""
    if len(text) > limit:
        half = limit // 2 - 2
        text = f"{text[:half]} … {text[-half:]}"
    if _is_clean(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace(_NUL, "\ufffd")


def _is_safe(value: object) -> bool:
    # A stack, not recursion: the sender chooses the depth. It runs for every request, so strings, the most
    # frequent values, come first and without a call.
    left: list[object] = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            if (not item.isascii() or _NUL in item) and not _is_clean(item):
                return False
        elif isinstance(item, float):
            if not math.isfinite(item):
                return False
        elif is_object(item):
            left += item
            left += item.values()
        elif is_array(item):
            left += item
    return True


def _is_clean(text: str) -> bool:
    return _NUL not in text and (text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text))


def _find_problems(value: object) -> Iterator[str]:
    left: list[tuple[str, object]] = [("", value)]
    while left:
        path, item = left.pop()
        if is_object(item):
            for key, inner in item.items():
                yield from _problems_of(f"{path}.{key!r}", key)
                left.append((f"{path}.{key}", inner))
        elif is_array(item):
            left.extend((f"{path}.{index}", inner) for index, inner in enumerate(item))
        else:
            yield from _problems_of(path, item)


def _problems_of(path: str, item: object) -> Iterator[str]:
    where = f"at {path.removeprefix('.')!r}" if path else "here"
    if isinstance(item, float) and not math.isfinite(item):
        yield f"{where}: expected a finite number, got {item}: JSON has no such number"
    if isinstance(item, str) and not _is_clean(item):
        what = "the character U+0000" if _NUL in item else "half a surrogate pair, which is no character"
        yield f"{where}: expected text that every database can keep, got {what}"
