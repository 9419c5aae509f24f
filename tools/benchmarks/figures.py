"""Statistics of rounds. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some rounds, and the lowest and the highest."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Raises ValueError for no values."""
    return Spread(median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Estimate:
    """The median of some values, and an interval that holds the true median with at least 95 % confidence
    (for fewer than six values, as much as they give)."""

    median: float
    low: float
    high: float
    values: int


def estimate_median(values: Sequence[float]) -> Estimate:
    """The sign test's interval, which assumes no distribution: between the k-th lowest and the k-th highest
    value, with the greatest k at which that many or fewer of n fair coins show heads in at most 2.5 % of all
    throws (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3.6). Seven values give all of
    their range at 98.4 %. Raises ValueError for no values."""
    ordered, count = sorted(values), len(values)
    outside, k = 1, 0  # throws with at most k heads, of 2 ** count
    while k + 1 < (count + 1) // 2 and (outside + comb(count, k + 1)) * 40 <= 2**count:
        k += 1
        outside += comb(count, k)
    return Estimate(median(ordered), ordered[k], ordered[count - 1 - k], count)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` of the values do not exceed (nearest rank)."""
    if not values:
        raise ValueError("expected values to take a percentile of, got none")
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))
    return ordered[int(rank) - 1]


def summary(rounds: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    """Each figure over all rounds that have it."""
    names = dict.fromkeys(name for one in rounds for name in one)
    return {name: spread([one[name] for one in rounds if name in one]) for name in names}
