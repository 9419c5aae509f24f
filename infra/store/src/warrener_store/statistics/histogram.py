"""A histogram of durations on a fixed logarithmic scale: small, mergeable, exact to a fifth. Pure.

Class n holds durations up to `2 ** (n / 2)` milliseconds, beyond those of class n - 1. So two histograms
merge by addition, and a percentile is wrong by a factor of 1.2 at most.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import ceil, log2, sqrt

Histogram = Mapping[int, int]
"""Durations by class; classes without one are left out."""

MAX_CLASS = 63
"""It holds all longer ones: from 17 days on."""
_FIRST = 0.001  # seconds


def class_of(seconds: float) -> int:
    """Return the class of a duration; one that is not positive counts as a millisecond."""
    return 0 if seconds <= _FIRST else min(ceil(2 * log2(seconds / _FIRST)), MAX_CLASS)


def upper_bound(number: int) -> float:
    """Return the longest duration of a class, in seconds."""
    return float(_FIRST * 2 ** (number / 2))


def merge(histograms: Iterable[Histogram]) -> Histogram:
    """Add histograms up."""
    total = Counter[int]()
    for one in histograms:
        total.update(one)
    return dict(total)


def percentile(histogram: Histogram, share: float) -> float | None:
    """Return the duration in seconds that this share (0 to 1) of them does not exceed; None if there is
    none."""
    count = sum(histogram.values())
    if not count:
        return None
    left = share * count
    for number, size in sorted(histogram.items()):
        left -= size
        if left <= 1e-9:
            return upper_bound(number) / sqrt(sqrt(2))  # the middle of the class
    return upper_bound(max(histogram))


def encode_histogram(histogram: Histogram) -> str:
    """Write `17:3 18:5`."""
    return " ".join(f"{number}:{size}" for number, size in sorted(histogram.items()))


def decode_histogram(text: str) -> Histogram:
    """Reverse `encode_histogram`."""
    pairs = (part.split(":") for part in text.split())
    return {int(number): int(size) for number, size in pairs}
