"""Routing keys and the patterns that topic exchanges match them with."""

from functools import lru_cache


@lru_cache(maxsize=4096)
def matches(pattern: str, key: str) -> bool:
    """True if a topic pattern matches a key: `*` is one word, `#` any number of words, also none."""
    return _match(tuple(pattern.split(".")), tuple(key.split(".")))


def _match(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    if not pattern:
        return not words
    head, rest = pattern[0], pattern[1:]
    if head == "#":
        return any(_match(rest, words[skipped:]) for skipped in range(len(words) + 1))
    return bool(words) and head in {"*", words[0]} and _match(rest, words[1:])
