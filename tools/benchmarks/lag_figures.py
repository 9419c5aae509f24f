"""What the starts of a schedule's ticks say about its lag. Pure."""

from collections.abc import Sequence
from itertools import pairwise

from tools.benchmarks.figures import percentile

_SECOND = 1_000_000_000


def lags(started: Sequence[int], phase: float | None) -> list[float]:
    """Milliseconds from the nominal time to the start of each tick, given in nanoseconds.

    `phase`: the fraction of the second at which ticks are due; None: they follow their own mean rhythm.
    """
    if phase is not None:
        return [(moment - round(phase * _SECOND)) % _SECOND / 1e6 for moment in started]
    step = (started[-1] - started[0]) / (len(started) - 1)
    off = [moment - started[0] - number * step for number, moment in enumerate(started)]
    return [(one - min(off)) / 1e6 for one in off]


def summary(started: Sequence[int], phase: float | None, spent: float) -> dict[str, float]:
    """The figures of one system, from when its ticks started and what they took of processors."""
    late = lags(started, phase)
    off = [abs(after - before - _SECOND) / 1e6 for before, after in pairwise(started)]
    return {
        "lag_p50_ms": percentile(late, 50),
        "lag_p99_ms": percentile(late, 99),
        "lag_worst_ms": max(late),
        "interval_p99_ms": percentile(off, 99),
        "drift_ms": (started[-1] - started[0] - (len(started) - 1) * _SECOND) / 1e6,
        "ticks": float(len(started)),
        "cpu_ms_per_tick": spent / len(started) * 1000,
    }
