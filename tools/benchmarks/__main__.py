"""`python -m tools.benchmarks`: ours and each peer in short paired turns, on one broker and one database.

Needs the dependency group `bench`: make bench installs it.
"""

import argparse
import os
import platform
import signal
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import psutil
from tools.benchmarks.curves import CURVES, Curves, cost_at_10m, draw_all, trace_curves
from tools.benchmarks.lag import Lags, measure_lags
from tools.benchmarks.pairs import Turns, measure_pairs
from tools.benchmarks.plan import QUICK, Plan
from tools.benchmarks.plot import draw, draw_lags
from tools.benchmarks.profiles import profile
from tools.benchmarks.report import Outcome, as_markdown, save
from tools.benchmarks.shared_servers import SharedServers
from tools.benchmarks.systems.catalogue import BEFORE, BEFORE_TRACED, SYSTEMS, before, variants
from tools.benchmarks.systems.clocks import CLOCKS
from tools.benchmarks.systems.port import System
from tools.benchmarks.turns import NAMES, Rounds, settings_of, take_turns, trace_sink


def main() -> None:
    """Measure, print, save."""
    signal.signal(signal.SIGTERM, _end)
    options = _options()
    plan = _plan(options)
    names: list[str] = list(options.only or NAMES)
    if options.against:
        names += [BEFORE, BEFORE_TRACED]
    with SharedServers.made() as servers:
        machine = f"{_machine()}, {servers.versions()}, fsync on"

        lags: Lags = {}

        pairs: Turns = {}

        def outcome(rounds: Rounds, curves: Curves) -> Outcome:
            settings = settings_of(names) | {
                f"{system.name}, schedule": system.settings for system in CLOCKS if system.name in lags
            }
            return Outcome(plan, machine, settings, rounds, pairs, cost_at_10m(curves), curves, lags)

        def keep(rounds: Rounds, curves: Curves | None = None) -> None:
            save(outcome(rounds, curves or {}), options.out)

        def keep_pairs(found: Turns) -> None:
            pairs.update(found)
            keep({})

        rounds: Rounds = {}
        if not (options.curves_only or options.lag_only):
            with trace_sink() as endpoint, TemporaryDirectory(prefix="warrener-keys-") as keys:
                systems: dict[str, System] = {**SYSTEMS, **variants(endpoint, Path(keys))}
                if options.against:
                    systems |= before(options.against, endpoint)
                measure_pairs(names, systems, plan, servers, keep_pairs)
                if not options.pairs_only:
                    alone = [name for name in names if name not in {BEFORE, BEFORE_TRACED}]
                    rounds = take_turns(alone, systems, plan, servers, keep)
        if options.lag_only or not (options.only or options.curves_only or options.pairs_only):
            lags |= measure_lags(servers, plan.lag_seconds)
            keep(rounds)
        curves = trace_curves(
            options.curves or [], plan, servers, lambda found: keep(rounds, found), large=options.large
        )
        if options.profile:
            profile(servers, plan, options.out)
    found = outcome(rounds, curves)
    save(found, options.out)
    if rounds:
        draw(found.measured(), options.out / "results.svg")
    draw_all(curves, options.out)
    if lags:
        draw_lags(lags, options.out / "schedule-lag.svg")
    print(as_markdown(found))
    if missing := [name for name, measured in rounds.items() if not measured]:
        sys.exit(f"expected figures of all, got none of {', '.join(missing)}: see above")


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)  # by an exception, so that what was started is ended


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks", description=__doc__)
    parser.add_argument("--pairs", type=int, help="pairs of turns, ours and each other (9)")
    parser.add_argument("--pairs-only", action="store_true", help="the ratios alone, no table of all figures")
    parser.add_argument(
        "--against",
        type=_checkout,
        metavar="FOLDER",
        help="a checkout of another commit in which make setup was run: is ours faster than it was?",
    )
    parser.add_argument("--rounds", type=int, help="rounds of the table of all figures (1)")
    parser.add_argument("--jobs", type=int, help="jobs in a round (30000; fewer of slow systems)")
    parser.add_argument("--only", type=_names, help=f"some of {','.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="small numbers, one round: does it run at all?")
    parser.add_argument(
        "--curves", type=lambda text: text.split(","), help=f"some of {','.join(CURVES)}, too"
    )
    parser.add_argument("--curves-only", action="store_true", help="no turns, the curves alone")
    parser.add_argument("--lag", type=float, help="seconds of a schedule of one tick a second (60)")
    parser.add_argument("--lag-only", action="store_true", help="no turns, the schedule's lag alone")
    parser.add_argument("--profile", action="store_true", help="flame graphs of ours at the end, by py-spy")
    parser.add_argument("--large", action="store_true", help="10 million rows, a backlog of 1 million")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="where results go")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(NAMES):
        raise argparse.ArgumentTypeError(
            f"expected some of {', '.join(NAMES)}, got {', '.join(sorted(unknown))}"
        )
    return names


def _checkout(text: str) -> Path:
    folder = Path(text).resolve()
    if not (folder / ".venv/bin/python").exists():
        raise argparse.ArgumentTypeError(
            f"expected a checkout with a .venv, got {text}; run make setup in it first"
        )
    return folder


def _plan(options: argparse.Namespace) -> Plan:
    plan = QUICK if options.quick else Plan()
    jobs, rounds = options.jobs or plan.jobs, options.rounds or plan.rounds
    pairs, lag = options.pairs or plan.pairs, options.lag or plan.lag_seconds
    return replace(plan, jobs=jobs, rounds=rounds, pairs=pairs, lag_seconds=lag)


def _machine() -> str:
    return (
        f"{os.cpu_count()} processors, {psutil.virtual_memory().total / 2**30:.0f} GiB, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f} at the beginning"
    )


if __name__ == "__main__":
    main()
