"""A run: every system once, then every system again."""

import json
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from tests.benchmarks import floor
from tests.benchmarks.grounds import Grounds
from tests.benchmarks.one_round import measure
from tests.benchmarks.place import ROOT
from tests.benchmarks.plan import Plan
from tests.benchmarks.systems.catalogue import ALONE, ALONE_SETTINGS, FLOOR, SYSTEMS, TRACED, variants
from tests.benchmarks.systems.port import System

from warrener_runtime.servers.ports import free_block

NAMES = (*SYSTEMS, ALONE, TRACED, FLOOR)
Rounds = dict[str, list[dict[str, float]]]


def take_turns(names: Sequence[str], plan: Plan, grounds: Grounds, keep: Callable[[Rounds], None]) -> Rounds:
    """The figures of every round by system; a round that failed is told and left out.

    `keep` is handed what there is after each round of all: a run takes long, and may be broken off.
    """
    found: Rounds = {name: [] for name in names}
    with _sink() as endpoint:
        for number in range(plan.rounds):
            for name in names:
                say(f"round {number + 1} of {plan.rounds}: {name}")
                try:
                    figures = _one(name, endpoint, plan, grounds)
                except Exception as error:  # noqa: BLE001 - the others have their turn all the same
                    say("\n".join([f"{name} failed: {error!r}", *getattr(error, "__notes__", ())]))
                    continue
                found[name].append(figures)
                say("  " + ", ".join(f"{key} {value:.4g}" for key, value in figures.items()))
            keep(found)
    return found


def settings_of(names: Sequence[str]) -> dict[str, str]:
    """What was set, by system."""
    told = {name: SYSTEMS[name].settings for name in names if name in SYSTEMS}
    if ALONE in names:
        told[ALONE] = ALONE_SETTINGS
    if TRACED in names:
        told[TRACED] = "as warrener, every step of every job traced and sent by OTLP over HTTP"
    if FLOOR in names:
        told[FLOOR] = floor.SETTINGS
    return told


def say(text: str) -> None:
    """To whoever waits."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def _one(name: str, endpoint: str, plan: Plan, grounds: Grounds) -> dict[str, float]:
    if name == FLOOR:
        return _floor(plan, grounds)
    systems: Mapping[str, System] = {**SYSTEMS, **variants(endpoint)}
    return measure(systems[name], grounds, plan).figures()


def _floor(plan: Plan, grounds: Grounds) -> dict[str, float]:
    with grounds.place() as place:
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.floor", str(plan.jobs)],
            cwd=ROOT,
            env=place.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"expected the floor's figures, got: {done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@contextmanager
def _sink() -> Generator[str]:
    port = free_block((0,))
    process = subprocess.Popen([sys.executable, "-m", "tests.benchmarks.sink", str(port)], cwd=ROOT)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
