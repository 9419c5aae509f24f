"""What was found, as JSON and as Markdown. Pure but for `save`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tools.benchmarks.figures import Estimate, Spread, summary
from tools.benchmarks.lag import HOW as LAG_HOW
from tools.benchmarks.pairs import Turns, pair_ratios
from tools.benchmarks.plan import Plan
from tools.benchmarks.ratios import GOALS

_COLUMNS: Mapping[str, str] = {
    "bulk": "requested while nothing else runs, jobs/s",
    "requested": "requested while the workers run, jobs/s",
    "drained": "drained, jobs/s",
    "end_to_end": "**end to end, jobs/s**",
    "cpu_ms": "processor, ms/job",
    "cpu_python_ms": "of it Python",
    "cpu_asker_ms": "asker",
    "cpu_workers_ms": "workers",
    "cpu_scheduler_ms": "scheduler",
    "cpu_supervisor_ms": "supervisor",
    "cpu_agents_ms": "agents",
    "cpu_broker_ms": "RabbitMQ",
    "cpu_database_ms": "PostgreSQL",
    "idle_start_p50": "idle: requested → started p50, ms",
    "idle_start_p99": "p99",
    "idle_result_p50": "→ result seen p50",
    "idle_result_p99": "p99",
    "loaded_start_p50": "half load: → started p50, ms",
    "loaded_start_p99": "p99",
    "loaded_result_p50": "→ result seen p50",
    "loaded_result_p99": "p99",
    "memory_mb": "biggest process, MB",
    "memory_all_mb": "all processes, MB",
    "processes": "processes",
    "cold_start_s": "cold start to first job done, s",
    "floor": "through one queue, messages/s",
    "floor_published": "published alone, messages/s",
    "floor_client_ms": "client, ms/message",
}
HOW = """\
- *requested*: all jobs requested by one process, until the broker (or database) has confirmed the last.
- *drained*: all were requested while no worker ran; from the first finished job to the last.
- *end to end*: from the first requested to the last whose end is kept (in the database; Dramatiq: gone from
  the broker).
- *processor*: of all processes during "end to end": asker, workers and services, RabbitMQ, PostgreSQL.
- *idle*: one job after another, nothing else running. *half load*: beside a steady load of half the rate of
  "end to end".
- *started*: the handler's first line sends a datagram. *result seen*: the asker has it (polled every
  millisecond where the library polls; Dramatiq keeps no results: there it is the end of the asking).
- *memory*: what is a process's own (USS), after all that.
- *ratios*: ours and one other are up at once and have short turns, A B A B: about three seconds of load
  each. The ratio is taken within each pair of turns, so that a machine that grows slower does so for both;
  shown is the median over the pairs, with an interval that holds it with 95 % confidence (sign test).
- *cold start*: from starting the processes to the first finished job, with all jobs waiting.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that one run found."""

    plan: Plan
    machine: str
    settings: Mapping[str, str]
    rounds: Mapping[str, Sequence[Mapping[str, float]]]
    pairs: Turns
    more_ratios: Mapping[str, Estimate]
    curves: Mapping[str, Sequence[Mapping[str, float]]]
    lags: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])

    def measured(self) -> dict[str, dict[str, Spread]]:
        """Medians and spreads by system and figure."""
        return {system: summary(rounds) for system, rounds in self.rounds.items() if rounds}

    def ratios(self) -> dict[str, Estimate]:
        """By the names of the goals."""
        return pair_ratios(self.pairs) | dict(self.more_ratios)


def as_json(outcome: Outcome) -> str:
    """All of it, with the figures of every round."""
    return json.dumps(
        {
            "machine": outcome.machine,
            "plan": asdict(outcome.plan),
            "settings": dict(outcome.settings),
            "ratios": {name: asdict(estimate) for name, estimate in outcome.ratios().items()},
            "systems": {
                system: {name: asdict(spread) for name, spread in figures.items()}
                for system, figures in outcome.measured().items()
            },
            "rounds": {system: list(rounds) for system, rounds in outcome.rounds.items()},
            "pairs": {name: list(pairs) for name, pairs in outcome.pairs.items()},
            "schedule_lag": {name: dict(figures) for name, figures in outcome.lags.items()},
            "curves": {name: list(points) for name, points in outcome.curves.items()},
        },
        indent=2,
    )


def as_markdown(outcome: Outcome) -> str:
    """The tables."""
    measured = outcome.measured()
    parts = [
        "# Benchmarks",
        f"{outcome.machine}. {outcome.plan.rounds} rounds, in brackets the lowest and the highest: absolute "
        "figures, which a shared machine changes by the minute; believe the ratios. "
        f"{outcome.plan.workers} workers (ours: scheduler, supervisor and "
        f"{outcome.plan.agents} agent), no-op jobs with {outcome.plan.payload} bytes of arguments.",
        _figures_table(measured),
        "## How it is measured",
        HOW + (LAG_HOW if outcome.lags else ""),
        "## Settings",
        "\n".join(f"- **{system}**: {text}" for system, text in outcome.settings.items()),
        "## Ratios",
        _ratios_table(outcome.ratios()),
        *([_lag_table(outcome.lags)] if outcome.lags else []),
        *(_curve_table(name, points) for name, points in outcome.curves.items()),
    ]
    return "\n\n".join(parts) + "\n"


def save(outcome: Outcome, folder: Path) -> None:
    """results.json and results.md."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(as_json(outcome), encoding="utf-8")
    (folder / "results.md").write_text(as_markdown(outcome), encoding="utf-8")


def _figures_table(measured: Mapping[str, Mapping[str, Spread]]) -> str:
    rows = [
        [title, *(_cell(figures.get(name)) for figures in measured.values())]
        for name, title in _COLUMNS.items()
        if any(name in figures for figures in measured.values())
    ]
    return _table(["", *measured], rows)


def _ratios_table(found: Mapping[str, Estimate]) -> str:
    rows = [
        [
            name,
            f"**{_number(found[name].median)}**",
            f"{_number(found[name].low)} to {_number(found[name].high)}",
            str(found[name].values),
            goal,
        ]
        for name, goal in GOALS.items()
        if name in found
    ]
    return _table(["ratio", "median of the pairs", "interval", "pairs", "goal"], rows)


def _lag_table(lags: Mapping[str, Mapping[str, float]]) -> str:
    heads = list(next(iter(lags.values())))
    rows = [[name, *(_number(figures[head]) for head in heads)] for name, figures in lags.items()]
    return "## Lag of a schedule of one tick a second\n\n" + _table(["", *heads], rows)


def _curve_table(name: str, points: Sequence[Mapping[str, float]]) -> str:
    if not points:
        return ""
    heads = list(points[0])
    return f"## Curve: {name}\n\n" + _table(
        heads, [[_number(point[head]) for head in heads] for point in points]
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    return f"{_number(spread.median)} ({_number(spread.low)} to {_number(spread.high)})"


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
