"""`make demo`: a year of flights is exported into a database, each row once, while something is killed.

Exits 0 only if the database has every row of every undamaged file once, and the workflow and the alerts name
the damaged files. `KILL=` agent, scheduler, supervisor or broker says who dies; `KEEP=1` leaves it running
afterwards, for a look at its console.
"""

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path
from time import monotonic

from examples.export.files import DAYS, ROWS, damage, write_days
from examples.export.handlers import Summary
from examples.export.outcome import Outcome, count_rows, read_outcome
from examples.warren import Warren
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from warrener_client import Client, Job
from warrener_runtime import log_output
from warrener_store import StateStore, open_store

VICTIMS = ("agent", "scheduler", "supervisor", "broker")
HOME = Path(".warrener/demo")
STORE = f"sqlite:///{HOME}/up/state.db"
KILL_AT = DAYS // 4  # files
PATIENCE = 240.0  # seconds for all jobs

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Run the story; the exit code."""
    log_output.configure("demo", level="error", format="console")  # the broker may be killed
    # A demo that is terminated stops its system too, as one that is interrupted does.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    victim = os.environ.get("WARRENER_DEMO_KILL") or "agent"
    if victim not in VICTIMS:
        console.print(f"expected KILL to be one of {', '.join(VICTIMS)}, got {victim!r}")
        return 2
    shutil.rmtree(HOME, ignore_errors=True)
    damaged = prepare(HOME / "files")
    os.environ["WARRENER_SUPERVISOR_ESCALATION_FILE"] = str(Path(__file__).with_name("escalation.toml"))
    warren = Warren((HOME / "up").absolute(), "examples.export.handlers")
    console.print("[bold]2[/] Starting a private RabbitMQ, the scheduler, the supervisor and two agents …")
    try:
        warren.start(within=240)
        outcome = asyncio.run(export(warren, victim, damaged))
        if not (keeps_running := bool(os.environ.get("WARRENER_DEMO_KEEP"))):
            warren.stop()
        mistakes = report(outcome, victim, warren)
        say_where_to_look(outcome, warren.console_url if keeps_running else None)
        if keeps_running:
            warren.wait()
    finally:
        warren.stop()
    return 1 if mistakes else 0


def prepare(folder: Path) -> dict[str, str]:
    """Write one file a day and damage three; returns how by the file."""
    console.print(f"[bold]1[/] Writing {ROWS:,} flights of a year into one file for each day …")
    damaged = damage(list(write_days(folder)))
    for file, how in damaged.items():
        console.print(f"  damaged on purpose: {file} ({how})")
    return damaged


async def export(warren: Warren, victim: str, damaged: dict[str, str]) -> Outcome:
    """Request the workflow, kill the victim on the way, and read what the databases have at the end."""
    store = open_store(STORE)
    await store.start()
    try:
        async with Client(warren.broker_url()) as client:
            job = await client.request("export.night", {"folder": str((HOME / "files").absolute())})
            console.print(f"[bold]3[/] The workflow export.night (job {job.job_id}) lists the files,")
            console.print("  loads each by a job of its own, waits for all of them, and sums up.")
            summary = await watch(job, store, warren, victim)
        loaded = count_rows(HOME / "up" / "ledger.db")
        return await read_outcome(store, summary, HOME / "files", damaged, loaded)
    finally:
        await store.close()


async def watch(job: Job, store: StateStore, warren: Warren, victim: str) -> Summary:
    """Show how far it is, kill the victim, and return the workflow's result."""
    columns = TextColumn("  {task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        bar, shown, deadline = progress.add_task("files", total=DAYS), 0, monotonic() + PATIENCE
        killed = False
        result = asyncio.create_task(job.result(as_=Summary, timeout=PATIENCE))
        while not (result.done() and shown >= 3) and monotonic() < deadline:
            ended = await show_states(progress, bar, store)
            for alert in warren.alerts[shown:]:
                progress.console.print(f"  [yellow]{escape(alert)}[/]")
                shown += 1
            if not killed and ended >= KILL_AT:
                killed = True
                progress.console.print(f"  [red]kill -9[/] of the {victim} (process {warren.kill(victim)})")
            await asyncio.sleep(0.2)
        return await result


async def show_states(progress: Progress, bar: TaskID, store: StateStore) -> int:
    """Show the states of the files' jobs; returns how many have ended."""
    counts = [count for count in await store.count_jobs() if count.job_type == "export.load" and count.jobs]
    ended = sum(count.jobs for count in counts if count.state.terminal)
    states = ", ".join(f"{count.jobs} {count.state}" for count in counts)
    progress.update(bar, completed=ended, description=states)
    return ended


def report(outcome: Outcome, victim: str, warren: Warren) -> list[str]:
    """Print what came of it; returns what is wrong with it."""
    console.print(f"\n[bold]The result of the workflow[/], after {outcome.turns} turns")
    console.print(
        f"  {outcome.summary.files} files, {outcome.summary.flights:,} flights, {outcome.summary.late:,} late"
    )
    for failed in outcome.summary.failed:
        console.print(f"  failed: {failed.file}: {escape(failed.error)}")
    console.print("\n[bold]What the databases say[/]")
    for what, figure, more in outcome.figures():
        console.print(f"  {what:<34}{figure:>9}  {more}".rstrip())
    console.print(f"  killed: {victim}; started again: {', '.join(warren.restarted) or 'nobody'}")
    mistakes = outcome.mistakes()
    if len(warren.alerts) < len(outcome.damaged):
        mistakes.append(f"expected an alert for each damaged file, got {warren.alerts}")
    if not warren.restarted:
        mistakes.append(f"expected the {victim} to die, got no death")
    for mistake in mistakes:
        console.print(f"[bold red]wrong:[/] {escape(mistake)}")
    if not mistakes:
        console.print("[bold green]Nothing was lost, and no row is there twice.[/]")
    return mistakes


def say_where_to_look(outcome: Outcome, url: str | None) -> None:
    """Print where to look next; `url`: the address of the console if it runs."""
    console.print("\n[bold]Look at it[/]")
    if url:
        console.print(
            f"  [bold]{url.rstrip('/')}/jobs/{outcome.job_id}[/]  its graph in the console; Ctrl-C ends all"
        )
    commands = {
        f"export WARRENER_STORE_URL={STORE}": "",
        f".venv/bin/warrener job {outcome.job_id}": "  # --tree: its jobs; --journal: its turns",
        ".venv/bin/warrener dead-letters": "  # the damaged files",
    }
    if not url:
        commands[".venv/bin/warrener console"] = "  # its graph; make demo KEEP=1 leaves a console running"
    for command, comment in commands.items():
        console.print(f"  {command}[dim]{comment}[/]")


if __name__ == "__main__":
    sys.exit(main())
