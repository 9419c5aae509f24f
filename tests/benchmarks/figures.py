"""Statistics of rounds. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
