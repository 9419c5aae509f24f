"""Workflows of ours beside those of others: `python -m tools.benchmarks.peers` (`--help` says what can be
chosen; packages: `infra/setup/environment bench`, and Go and Redis if there are any).

Three figures of the same import, each system with a place of its own on shared servers, in paired turns with
ours: children a second of a fan-out of trivial children with a join, milliseconds of a call and of a step in
a row of them, and what comes of an import whose workers are killed with SIGKILL at the join.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from tools.benchmarks.figures import Estimate, estimate_median
from tools.benchmarks.peers import redis_server, systems, temporal_server
from tools.benchmarks.peers.contest import Contestant, Kill
from tools.benchmarks.place import ROOT, Place
from tools.benchmarks.shared_servers import SharedServers
from tools.benchmarks.turns import print_progress

_INSTANTS = "0,1,2,3,4,5,7,10,20,40,80,150"
_RESULTS = ROOT / "build" / "bench" / "peers.json"
Make = Callable[[Place], systems.Peer]


def main() -> int:
    """Run the contest; 1 if a system failed."""
    options = _options()
    with SharedServers.made() as servers, ExitStack() as stack:
        makers = _makers(options.only.split(","), servers, stack)
        found: dict[str, Any] = json.loads(options.results.read_text()) if options.results.exists() else {}
        found |= {
            "versions": _versions(servers),
            "options": {name: str(value) for name, value in vars(options).items()},
        }
        failed = False

        def keep(part: str, name: str, measure: Callable[[], Any]) -> None:
            nonlocal failed
            print_progress(f"{part}: {name}")
            try:
                found.setdefault(part, {})[name] = measure()
            except Exception as error:  # noqa: BLE001 - the others have their turns all the same
                failed = True
                print_progress("\n".join([f"  failed: {error!r}", *getattr(error, "__notes__", ())]))
            else:
                options.results.parent.mkdir(parents=True, exist_ok=True)
                options.results.write_text(json.dumps(found, indent=1))

        for name, make in makers.items():
            if options.pairs and not name.startswith("warrener"):
                keep("pairs", name, partial(_take_pairs, make, servers, options))
        for name, make in makers.items():
            if options.instants:
                keep("kills", name, partial(_kill, make, servers, options))
    return int(failed)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.peers", description=__doc__)
    parser.add_argument("--children", type=int, default=1000, help="of one import (default 1000)")
    parser.add_argument("--calls", type=int, default=50, help="in a row (default 50)")
    parser.add_argument("--pairs", type=int, default=7, help="turns of each side (default 7)")
    parser.add_argument(
        "--instants",
        default=_INSTANTS,
        help=f"milliseconds after the last child at which the workers die (default {_INSTANTS}; '': none)",
    )
    parser.add_argument(
        "--killed-children", type=int, default=50, help="of an import that is killed (default 50)"
    )
    everyone = "warrener,warrener-supervisor,celery,celery-redis,dbos,temporal"
    parser.add_argument("--results", type=Path, default=_RESULTS, help=f"file (default {_RESULTS.name})")
    parser.add_argument("--only", default=everyone, help=f"systems, by commas (default {everyone})")
    return parser.parse_args()


def _makers(names: list[str], servers: SharedServers, stack: ExitStack) -> dict[str, Make]:
    """What makes each system that can be had here, and starts what it needs beside the shared servers."""
    found: dict[str, Make] = {
        "warrener": systems.warrener,
        "warrener-supervisor": partial(systems.warrener, killed="supervisor"),
        "celery": systems.celery,
        "dbos": systems.dbos,
    }
    try:
        if "celery-redis" in names:
            redis = stack.enter_context(redis_server.redis_server(servers.folder / "redis"))
            found["celery-redis"] = partial(systems.celery, redis=redis)
        if "temporal" in names:
            folder = servers.folder / "temporal"
            address = stack.enter_context(temporal_server.temporal_server(servers, folder))
            found["temporal"] = partial(systems.temporal, address=address)
    except (redis_server.RedisMissing, temporal_server.TemporalMissing) as missing:
        print_progress(f"left out: {missing}")
    return {name: found[name] for name in names if name in found}


def _take_pairs(make: Make, servers: SharedServers, options: argparse.Namespace) -> dict[str, Any]:
    with servers.place() as our_place, servers.place() as place, ExitStack() as stack:
        ours = stack.enter_context(Contestant.made(systems.warrener(our_place), our_place))
        other = stack.enter_context(Contestant.made(make(place), place))
        turns: dict[str, list[tuple[float, float]]] = {}
        loads = [os.getloadavg()[0]]
        for _ in range(options.pairs):
            for name, number in (
                ("import", options.children),
                ("calls", options.calls),
                ("steps", options.calls),
            ):
                if name == "steps" and not other.peer.has_steps:
                    continue
                one, two = ours.seconds(name, number), other.seconds(name, number)
                turns.setdefault(name, []).append((one / number, two / number))
            loads.append(os.getloadavg()[0])
        found = {
            "settings": other.peer.settings,
            "load": [min(loads), max(loads)],
            "turns": turns,
            "ours": _middle(turns, 0),
            "other": _middle(turns, 1),
            "ratios": {name: _ratio(pairs) for name, pairs in turns.items()},
        }
        print_progress(f"  {found['ratios']}, load {found['load']}")
        return found


def _middle(turns: Mapping[str, list[tuple[float, float]]], side: int) -> dict[str, float]:
    return {name: median(pair[side] for pair in pairs) for name, pairs in turns.items()}


def _ratio(pairs: list[tuple[float, float]]) -> dict[str, float]:
    """How many times as fast as the other ours is."""
    ratio: Estimate = estimate_median([other / ours for ours, other in pairs])
    return {"median": round(ratio.median, 3), "low": round(ratio.low, 3), "high": round(ratio.high, 3)}


def _kill(make: Make, servers: SharedServers, options: argparse.Namespace) -> dict[str, Any]:
    kills: list[Kill] = []
    with servers.place() as place, Contestant.made(make(place), place) as contestant:
        for instant in options.instants.split(","):
            kills.append(contestant.kill_at_join(options.killed_children, float(instant)))
            print_progress(f"  {kills[-1]}")
    summary = _sum_up(kills)
    print_progress(f"  {summary}")
    return {"summary": summary, "load": os.getloadavg()[0], "kills": [asdict(kill) for kill in kills]}


def _sum_up(kills: list[Kill]) -> str:
    ends = sorted(kill.ended_after for kill in kills if kill.ended_after is not None)
    times = f", after {ends[0]:.1f} to {ends[-1]:.1f} s (median {median(ends):.1f})" if ends else ""
    twice = sum(kill.joins > 1 for kill in kills)
    late = sum(kill.was_late for kill in kills)
    return f"{len(ends)} of {len(kills)} ended{times}; joined twice {twice}; killed behind the join {late}"


def _versions(servers: SharedServers) -> dict[str, str]:
    found = {name: version(name) for name in ("celery", "dbos", "temporalio")}
    return found | {"servers": servers.versions(), "temporal-server": temporal_server.VERSION}


if __name__ == "__main__":
    sys.exit(main())
