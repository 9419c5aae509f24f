"""A run: every system once, then every system again."""

import json
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from tools.benchmarks import floor
from tools.benchmarks.one_round import measure
from tools.benchmarks.place import ROOT
from tools.benchmarks.plan import Plan
from tools.benchmarks.shared_servers import SharedServers
from tools.benchmarks.systems.catalogue import (
    ALONE,
    ALONE_SETTINGS,
    BEFORE,
    BEFORE_TRACED,
    ENCRYPTED,
    FLOOR,
    SIGNED,
    SYSTEMS,
    TRACED,
    UNMETERED,
)
from tools.benchmarks.systems.port import System
from tools.benchmarks.systems.river_system import RiverMissing

from warrener_devservers.process import free_block

NAMES = (*SYSTEMS, ALONE, TRACED, UNMETERED, ENCRYPTED, SIGNED, FLOOR)
Rounds = dict[str, list[dict[str, float]]]


def take_turns(
    names: Sequence[str],
    systems: Mapping[str, System],
    plan: Plan,
    servers: SharedServers,
    keep: Callable[[Rounds], None],
) -> Rounds:
    """The figures of every round by system; a round that failed is reported and left out, and so is a system
    that cannot be had here.

    `keep` is handed what there is after each round of all: a run takes long, and may be broken off.
    """
    found: Rounds = {name: [] for name in names}
    for number in range(plan.rounds):
        for name in [name for name in names if name in found]:
            print_progress(f"round {number + 1} of {plan.rounds}: {name}")
            try:
                figures = _one(name, systems, plan, servers)
            except RiverMissing as missing:
                print_progress(f"  left out: {missing}")
                del found[name]
                continue
            except Exception as error:  # noqa: BLE001 - the others have their turn all the same
                print_progress("\n".join([f"{name} failed: {error!r}", *getattr(error, "__notes__", ())]))
                continue
            found[name].append(figures)
            print_progress("  " + ", ".join(f"{key} {value:.4g}" for key, value in figures.items()))
        keep(found)
    return found


def settings_of(names: Sequence[str]) -> dict[str, str]:
    """What was set, by system."""
    settings = {name: SYSTEMS[name].settings for name in names if name in SYSTEMS}
    if ALONE in names:
        settings[ALONE] = ALONE_SETTINGS
    if TRACED in names:
        settings[TRACED] = "as warrener, every step of every job traced and sent by OTLP over HTTP"
    if UNMETERED in names:
        settings[UNMETERED] = "as warrener, no metrics recorded"
    if ENCRYPTED in names:
        settings[ENCRYPTED] = "as warrener, clients and agents encrypt all arguments and results"
    if SIGNED in names:
        settings[SIGNED] = "as warrener, requests are signed, and the scheduler demands it"
    if BEFORE in names:
        settings[BEFORE] = settings[BEFORE_TRACED] = "as ours, the code of another commit"
    if FLOOR in names:
        settings[FLOOR] = floor.SETTINGS
    return settings


def print_progress(text: str) -> None:
    """To whoever waits."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def _one(name: str, systems: Mapping[str, System], plan: Plan, servers: SharedServers) -> dict[str, float]:
    if name == FLOOR:
        return measure_floor(servers, plan.jobs)
    return measure(systems[name], servers, plan).figures()


def measure_floor(servers: SharedServers, messages: int) -> dict[str, float]:
    """The client of the bus alone through one quorum queue (floor.py)."""
    with servers.place() as place:
        done = subprocess.run(
            [sys.executable, "-m", "tools.benchmarks.floor", str(messages)],
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
def trace_sink() -> Generator[str]:
    """The URL of a process that takes spans by OTLP and forgets them."""
    port = free_block((0,))
    process = subprocess.Popen([sys.executable, "-m", "tools.benchmarks.sink", str(port)], cwd=ROOT)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
