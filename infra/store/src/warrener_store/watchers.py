"""Who is told when a job is over."""

from collections.abc import Iterable

MAX_WATCHERS = 8


def merge_watchers(watchers: Iterable[str], more: Iterable[str]) -> tuple[str, ...]:
    """`watchers` and then `more`, each once at its last place; of too many the oldest give way."""
    latest = dict.fromkeys(reversed([*watchers, *more]))
    return tuple(reversed(list(latest)[:MAX_WATCHERS]))
