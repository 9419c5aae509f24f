"""`make demo`: a year of flights, loaded exactly once while something is killed.

Exits 0 only if the databases say that every row of every undamaged file is there once, and that the damaged
files are dead jobs with their reasons. `KILL=` agent, scheduler, supervisor or broker says who dies;
`KEEP=1` leaves it running afterwards, for a look at its console.
"""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from time import monotonic

from examples.flights.console_report import report, where_to_look
from examples.flights.damage import damage
from examples.flights.days import DAYS, ROWS, write_days
from examples.flights.summary import Summary, summarise
from examples.flights.warren import Warren
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from warrener_client import Client
from warrener_runtime import log_output
from warrener_store import StateStore, open_store

VICTIMS = ("agent", "scheduler", "supervisor", "broker")
KILL_AT = DAYS // 4  # files loaded
PATIENCE = 150.0  # seconds for all jobs

console = Console()


def main() -> int:
    """The whole story; the exit code."""
    log_output.configure(
        "demo", level="error", format="console"
    )  # that a killed broker is gone is no news here
    # A demo that is terminated stops its system too, as one that is interrupted does.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    victim = os.environ.get("WARRENER_DEMO_KILL") or "agent"
    if victim not in VICTIMS:
        console.print(f"expected KILL to be one of {', '.join(VICTIMS)}, got {victim!r}")
        return 2
    home = Path(".warrener/demo").absolute()
    shutil.rmtree(home, ignore_errors=True)
    folder, data = home / "days", home / "up"
    damaged = prepare(folder)
    warren = Warren(data, "examples.flights.handlers")
    console.print("[bold]2[/] Starting a private RabbitMQ, the scheduler, the supervisor and two agents …")
    keeps_running = bool(os.environ.get("WARRENER_DEMO_KEEP"))
    try:
        warren.start()
        summary = asyncio.run(load(warren, data, folder, damaged, victim))
        if not keeps_running:
            warren.stop()
        mistakes = summary.mistakes() + (
            [] if warren.restarted else [f"expected the {victim} to die, got no death"]
        )
        killed = f"{victim}; started again: {', '.join(warren.restarted) or 'nobody'}"
        report(console, summary, mistakes, killed)
        where_to_look(console, data, warren.console_url, keeps_running=keeps_running)
        if keeps_running:
            warren.wait()
    finally:
        warren.stop()
    return 1 if mistakes else 0


def prepare(folder: Path) -> Mapping[str, str]:
    """One CSV a day, three of them damaged."""
    console.print(f"[bold]1[/] Splitting {ROWS:,} flights into one file a day …")
    files = list(write_days(folder))
    damaged = damage(files)
    for file, how in damaged.items():
        console.print(f"  damaged on purpose: {file.name} ({how})")
    return {file.name: how for file, how in damaged.items()}


async def load(warren: Warren, data: Path, folder: Path, damaged: Mapping[str, str], victim: str) -> Summary:
    """Ask for the listing, watch the loads, kill the victim on the way; what the databases say at the end."""
    store = open_store(f"sqlite:///{data / 'state.db'}")
    await store.start()
    try:
        async with Client(warren.broker_url()) as client:
            job = await client.request("flights.list", {"folder": str(folder)})
            await watch(store, warren, victim)
            await job.result(timeout=PATIENCE)
        return await summarise(store, data / "ledger.db", folder, damaged)
    finally:
        await store.close()


async def watch(store: StateStore, warren: Warren, victim: str) -> None:
    """Show how far it is until all jobs are over, or patience is."""
    console.print(
        f"[bold]3[/] One job lists the files, and asks for one each; at {KILL_AT} the {victim} dies"
    )
    columns = TextColumn("  {task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=False) as progress:
        bar = progress.add_task("loading", total=DAYS)
        deadline, killed = monotonic() + PATIENCE, False
        while monotonic() < deadline:
            states = {
                count.state: count.jobs
                for count in await store.count_jobs()
                if count.job_type == "flights.load"
            }
            over = sum(jobs for state, jobs in states.items() if state.terminal)
            progress.update(
                bar, completed=over, description=", ".join(f"{n} {s}" for s, n in states.items() if n)
            )
            if not killed and over >= KILL_AT:
                killed = True
                progress.console.print(f"  [red]kill -9[/] {victim} (process {warren.kill(victim)})")
            if over >= DAYS:
                return
            await asyncio.sleep(0.2)
    console.print(f"[red]expected {DAYS} jobs to be over within {PATIENCE:.0f} s[/]")


if __name__ == "__main__":
    sys.exit(main())
