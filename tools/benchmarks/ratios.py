"""What is compared with what, by the names of the goals. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

GOALS: Mapping[str, str] = {
    "throughput_vs_celery": "≥ 25",
    "throughput_vs_taskiq": "≥ 5",
    "throughput_vs_procrastinate": "≥ 10",
    "throughput_vs_dbos": "≥ 8",
    "throughput_vs_dramatiq": "none",
    "throughput_vs_river": "none",
    "throughput_vs_floor": "≥ 0.2",
    "cpu_vs_taskiq": "≤ 0.2",
    "cpu_vs_river": "none",
    "start_latency_vs_celery": "≤ 0.8",
    "start_latency_vs_river": "none",
    "throughput_alone_vs_celery": "none",
    "throughput_alone_vs_taskiq": "none",
    "throughput_traced": "≥ 0.6",
    "throughput_metered": "≥ 1 within its interval",
    "cpu_metered": "≤ 1 within its interval",
    "throughput_encrypted": "none",
    "throughput_signed": "none",
    "bulk_vs_broker": "≥ 0.4",
    "cost_at_10m": "≤ 1.15",
    "throughput_vs_before": "≥ 1 within its interval",
    "cpu_vs_before": "≤ 1 within its interval",
    "start_latency_vs_before": "≤ 1 within its interval",
    "throughput_traced_vs_before": "≥ 1 within its interval",
}


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two sides that have turns, and the ratios that follow: name → (figure of ours, figure of the other)."""

    ours: str
    other: str
    ratios: Mapping[str, tuple[str, str]]

    @property
    def name(self) -> str:
        """Of this pairing alone."""
        return f"{self.ours} / {self.other}"

    @property
    def latency(self) -> bool:
        """True if a ratio needs the start latency, which takes time to measure."""
        return any("idle_start_p50" in figures for figures in self.ratios.values())


_RATE = ("end_to_end", "end_to_end")
_CPU = ("cpu_ms", "cpu_ms")
_START = ("idle_start_p50", "idle_start_p50")

PAIRINGS = (
    Pairing("warrener", "celery", {"throughput_vs_celery": _RATE, "start_latency_vs_celery": _START}),
    Pairing("warrener", "taskiq", {"throughput_vs_taskiq": _RATE, "cpu_vs_taskiq": _CPU}),
    Pairing("warrener", "procrastinate", {"throughput_vs_procrastinate": _RATE}),
    Pairing("warrener", "dbos", {"throughput_vs_dbos": _RATE}),
    Pairing("warrener", "dramatiq", {"throughput_vs_dramatiq": _RATE}),
    Pairing(
        "warrener",
        "river",
        {"throughput_vs_river": _RATE, "cpu_vs_river": _CPU, "start_latency_vs_river": _START},
    ),
    Pairing("warrener", "floor", {"throughput_vs_floor": ("end_to_end", "floor")}),
    Pairing("warrener:bulk", "floor", {"bulk_vs_broker": ("bulk", "floor_published")}),
    Pairing("warrener-alone", "celery", {"throughput_alone_vs_celery": _RATE}),
    Pairing("warrener-alone", "taskiq", {"throughput_alone_vs_taskiq": _RATE}),
    Pairing("warrener-traced", "warrener", {"throughput_traced": _RATE}),
    Pairing("warrener", "warrener-unmetered", {"throughput_metered": _RATE, "cpu_metered": _CPU}),
    Pairing("warrener-encrypted", "warrener", {"throughput_encrypted": _RATE}),
    Pairing("warrener-signed", "warrener", {"throughput_signed": _RATE}),
    Pairing(
        "warrener",
        "warrener-before",
        {"throughput_vs_before": _RATE, "cpu_vs_before": _CPU, "start_latency_vs_before": _START},
    ),
    Pairing("warrener-traced", "warrener-traced-before", {"throughput_traced_vs_before": _RATE}),
)
