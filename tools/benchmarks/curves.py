"""Scaling curves of ours: what a job costs as one thing grows."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tools.benchmarks import measurements as at
from tools.benchmarks.figures import Estimate, estimate_median
from tools.benchmarks.history import fill
from tools.benchmarks.place import Place
from tools.benchmarks.plan import Plan
from tools.benchmarks.plot import draw_curve
from tools.benchmarks.schedules import ticking
from tools.benchmarks.shared_servers import SharedServers
from tools.benchmarks.turns import print_progress

Point = dict[str, float]
Curves = dict[str, list[Point]]
_AGENTS = (1, 2, 4)
_ROWS, _MOST_ROWS = (0, 1_000_000), 10_000_000
_BACKLOG, _MOST_BACKLOG = (0, 10_000, 100_000), 1_000_000
_PAYLOAD = (100, 1_000, 10_000, 100_000, 500_000)
_SCHEDULES = (10, 100, 1_000, 10_000)  # one alone may not tick as often as they do together
_AGAINST_NONE = ("cpu_against_none", "cpu_against_none_low", "cpu_against_none_high")
_PAYLOAD_TOTAL = 200_000_000  # bytes in one point at most


def trace_curves(
    names: Sequence[str], plan: Plan, servers: SharedServers, keep: Callable[[Curves], None], *, large: bool
) -> Curves:
    """The points of these curves, the smallest first; `keep` is handed what there is after each curve."""
    found: Curves = {}
    for name in names:
        found[name] = CURVES[name](plan, servers, large)
        keep(found)
    return found


def cost_at_10m(curves: Mapping[str, Sequence[Point]]) -> dict[str, Estimate]:
    """Processor time a job with ten million finished rows against none, if both were measured."""
    for point in curves.get("rows", ()):
        if point["rows"] == _MOST_ROWS:
            ratio, low, high = (point[name] for name in _AGAINST_NONE)
            return {"cost_at_10m": Estimate(ratio, low, high, int(point["turns"]))}
    return {}


def draw_all(curves: Mapping[str, Sequence[Point]], folder: Path) -> None:
    """One picture each."""
    for name, points in curves.items():
        if points:
            draw_curve(name, points, folder / f"curve-{name}.svg")


def _agents(plan: Plan, servers: SharedServers, large: bool) -> list[Point]:  # noqa: FBT001 - as CURVES has them
    del large
    return [
        {"agents": float(count)} | at.throughput(servers, replace(plan, agents=count))
        for count in _each_logged("agents", _AGENTS)
    ]


def _rows(plan: Plan, servers: SharedServers, large: bool) -> list[Point]:  # noqa: FBT001
    counts = (*_ROWS, _MOST_ROWS) if large else _ROWS
    places = at.in_turns(servers, plan, [_filled(count) for count in _each_logged("rows", counts)])
    points: list[Point] = []
    for count, turns in zip(counts, places, strict=True):
        ratios = [turn["cpu_ms"] / first["cpu_ms"] for turn, first in zip(turns, places[0], strict=True)]
        found = estimate_median(ratios)
        against = dict(zip(_AGAINST_NONE, (found.median, found.low, found.high), strict=True))
        points.append(
            {"rows": float(count)} | at.medians_of(turns) | against | {"turns": float(found.values)}
        )
    return points


def _filled(count: int) -> Callable[[Place], None]:
    return lambda place: asyncio.run(fill(place.database_url, count))


def _backlog(plan: Plan, servers: SharedServers, large: bool) -> list[Point]:  # noqa: FBT001
    counts = (*_BACKLOG, _MOST_BACKLOG) if large else _BACKLOG
    return [
        {"backlog": float(count)} | at.draining(servers, plan, count)
        for count in _each_logged("backlog", counts)
    ]


def _payload(plan: Plan, servers: SharedServers, large: bool) -> list[Point]:  # noqa: FBT001
    del large
    return [
        {"payload": float(size)}
        | at.throughput(servers, replace(plan, payload=size, jobs=min(plan.jobs, _PAYLOAD_TOTAL // size)))
        for size in _each_logged("payload", _PAYLOAD)
    ]


def _schedules(plan: Plan, servers: SharedServers, large: bool) -> list[Point]:  # noqa: FBT001
    del large
    return [
        {"schedules": float(count)} | ticking(servers, plan, count)
        for count in _each_logged("schedules", _SCHEDULES)
    ]


def _each_logged(name: str, values: Sequence[int]) -> Sequence[int]:
    print_progress(f"curve {name}: {', '.join(str(value) for value in values)}")
    return values


CURVES: Mapping[str, Callable[[Plan, SharedServers, bool], list[Point]]] = {
    "agents": _agents,
    "rows": _rows,
    "backlog": _backlog,
    "payload": _payload,
    "schedules": _schedules,
}
