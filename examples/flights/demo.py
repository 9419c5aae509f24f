"""`make demo`: a year of flights, loaded exactly once while something is killed.

Exits 0 only if the databases say that every row of every undamaged file is there once, and that the damaged files are
dead jobs with their reasons. `KILL=agent` (default), `scheduler`, `supervisor` or `broker` chooses the victim.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.flights.damage import damage
from examples.flights.days import DAYS, ROWS, write_days
from examples.flights.summary import Summary, summarise
from examples.flights.warren import Warren
from warrener_client import Client
from warrener_contracts.states import JobState
from warrener_store import StateStore, open_store

VICTIMS = ("agent", "scheduler", "supervisor", "broker")
KILL_AT = DAYS // 4  # files loaded
PATIENCE = 150.0  # seconds for all jobs

console = Console()


def main() -> int:
    """The whole story; the exit code."""
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
    try:
        warren.start()
        summary = asyncio.run(load(warren, data, folder, damaged, victim))
    finally:
        warren.stop()
    return report(summary, warren, victim, data)


def prepare(folder: Path) -> Mapping[str, str]:
    """One CSV a day, three of them damaged."""
    console.print(f"[bold]1[/] Splitting {ROWS:,} flights into one file a day …")
    files = list(write_days(folder))
    damaged = damage(files)
    for file, how in damaged.items():
        console.print(f"  damaged on purpose: {file.name} ({how})")
    return {file.name: how for file, how in damaged.items()}


async def load(
    warren: Warren, data: Path, folder: Path, damaged: Mapping[str, str], victim: str
) -> Summary:
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
    console.print(f"[bold]3[/] One job lists the files, and asks for one each; at {KILL_AT} the {victim} dies")
    columns = TextColumn("  {task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=False) as progress:
        bar = progress.add_task("loading", total=DAYS)
        deadline, killed = monotonic() + PATIENCE, False
        while monotonic() < deadline:
            states = {count.state: count.jobs for count in await store.count_jobs() if count.job_type == "flights.load"}
            over = sum(jobs for state, jobs in states.items() if state.terminal)
            progress.update(bar, completed=over, description=", ".join(f"{n} {s}" for s, n in states.items() if n))
            if not killed and over >= KILL_AT:
                killed = True
                progress.console.print(f"  [red]kill -9[/] {victim} (process {warren.kill(victim)})")
            if over >= DAYS:
                return
            await asyncio.sleep(0.2)
    console.print(f"[red]expected {DAYS} jobs to be over within {PATIENCE:.0f} s[/]")


def report(summary: Summary, warren: Warren, victim: str, data: Path) -> int:
    """What came of it, as the databases tell it."""
    rows, ends = sum(summary.expected.values()), summary.ends
    retries = sum(job.attempt - 1 for job in summary.jobs)
    console.print("\n[bold]What the databases say[/]")
    console.print(f"  rows in the {len(summary.expected)} undamaged files  {rows:>9,}")
    console.print(f"  rows loaded                        {summary.loaded.rows:>9,}")
    console.print(f"  rows loaded twice                  {summary.loaded.rows - summary.loaded.distinct:>9,}")
    console.print(f"  jobs                               {len(summary.jobs):>9,}  {_counted(summary.states)}")
    console.print(f"  attempts                           {len(summary.attempts):>9,}  {_counted(ends)}")
    console.print(f"  retries                            {retries:>9,}")
    for name, job in sorted(summary.dead.items()):
        reason = job.error.message.splitlines()[0] if job.error else "no error told"
        console.print(f"  dead: {name} ({summary.damaged.get(name, '?')}) after {job.attempt}: {reason}", soft_wrap=True)
    done = summary.states[JobState.SUCCEEDED]
    console.print(f"  first request to last success      {summary.seconds:>9.1f} s, {done / max(summary.seconds, 0.1):.0f} jobs/s")
    console.print(f"  killed: {victim}; started again by `warrener up`: {', '.join(warren.restarted) or 'nobody'}")
    mistakes = summary.mistakes() + ([] if warren.restarted else [f"expected the {victim} to die, got no death"])
    for mistake in mistakes:
        console.print(f"[bold red]wrong:[/] {mistake}")
    if not mistakes:
        console.print("[bold green]Every row is there exactly once.[/]")
    console.print("\n[bold]Where to look next[/]")
    console.print(f"  WARRENER_STORE_URL=sqlite:///{data / 'state.db'} .venv/bin/warrener dead", soft_wrap=True)
    console.print("  README.md, to run handlers of your own; docs/journey-of-a-job.md, for what happened to these")
    return 1 if mistakes else 0


def _counted(things: Mapping[object, int]) -> str:
    return ", ".join(f"{number} {what}" for what, number in sorted(things.items(), key=lambda pair: -pair[1]))


if __name__ == "__main__":
    sys.exit(main())
