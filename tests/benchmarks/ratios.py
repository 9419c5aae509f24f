"""What is compared with what, by the names of the goals. Pure."""

from collections.abc import Mapping

from tests.benchmarks.figures import Spread

Measured = Mapping[str, Mapping[str, Spread]]
"""System → figure → its spread."""

GOALS: Mapping[str, str] = {
    "throughput_vs_celery": "≥ 25",
    "throughput_vs_taskiq": "≥ 5",
    "throughput_vs_procrastinate": "≥ 10",
    "throughput_vs_dbos": "≥ 8",
    "throughput_vs_dramatiq": "none",
    "throughput_vs_floor": "≥ 0.2",
    "cpu_vs_taskiq": "≤ 0.2",
    "start_latency_vs_celery": "≤ 0.8",
    "throughput_alone_vs_celery": "none",
    "throughput_alone_vs_taskiq": "none",
    "throughput_traced": "≥ 0.6",
    "bulk_vs_broker": "≥ 0.4",
    "cost_at_10m": "≤ 1.15",
}

# name → (numerator's system and figure, denominator's)
_OF: Mapping[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "throughput_vs_celery": (("warrener", "end_to_end"), ("celery", "end_to_end")),
    "throughput_vs_taskiq": (("warrener", "end_to_end"), ("taskiq", "end_to_end")),
    "throughput_vs_procrastinate": (("warrener", "end_to_end"), ("procrastinate", "end_to_end")),
    "throughput_vs_dbos": (("warrener", "end_to_end"), ("dbos", "end_to_end")),
    "throughput_vs_dramatiq": (("warrener", "end_to_end"), ("dramatiq", "end_to_end")),
    "throughput_vs_floor": (("warrener", "end_to_end"), ("floor", "floor")),
    "cpu_vs_taskiq": (("warrener", "cpu_ms"), ("taskiq", "cpu_ms")),
    "start_latency_vs_celery": (("warrener", "idle_start_p50"), ("celery", "idle_start_p50")),
    "throughput_alone_vs_celery": (("warrener-alone", "end_to_end"), ("celery", "end_to_end")),
    "throughput_alone_vs_taskiq": (("warrener-alone", "end_to_end"), ("taskiq", "end_to_end")),
    "throughput_traced": (("warrener-traced", "end_to_end"), ("warrener", "end_to_end")),
    "bulk_vs_broker": (("warrener", "bulk"), ("floor", "floor_published")),
}


def ratios(measured: Measured) -> dict[str, float]:
    """Each ratio of medians that can be had of what was measured."""
    found: dict[str, float] = {}
    for name, (above, below) in _OF.items():
        top, bottom = _median(measured, *above), _median(measured, *below)
        if top is not None and bottom:
            found[name] = top / bottom
    return found


def _median(measured: Measured, system: str, figure: str) -> float | None:
    spread = measured.get(system, {}).get(figure)
    return None if spread is None else spread.median
