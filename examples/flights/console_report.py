"""What came of it, for a person to read; every figure is the databases'."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from examples.flights.summary import Summary
from rich.console import Console

from warrener_contracts.state_machine import JobState


def report(console: Console, summary: Summary, mistakes: Sequence[str], killed: str) -> None:
    """Print the figures, and what is wrong with them."""
    console.print("\n[bold]What the databases say[/]")
    for what, figure, more in _figures(summary):
        console.print(f"  {what:<38}{figure:>9}  {more}")
    for name, job in sorted(summary.dead.items()):
        reason = job.error.message.splitlines()[0] if job.error else "no error told"
        how = summary.damaged.get(name, "?")
        console.print(f"  dead: {name} ({how}) after {job.attempt}: {reason}", soft_wrap=True)
    console.print(f"  killed: {killed}")
    for mistake in mistakes:
        console.print(f"[bold red]wrong:[/] {mistake}")
    if not mistakes:
        console.print("[bold green]Every row is there exactly once.[/]")


def where_to_look(console: Console, data: Path, url: str | None, *, keeps_running: bool) -> None:
    """Print where to look next; `url`: the address of the console while it runs."""
    store = f"sqlite:///{data / 'state.db'}"
    console.print("\n[bold]Where to look next[/]")
    if keeps_running and url:
        console.print(f"  [bold]{url}[/]  the console, with the import that has just run; Ctrl-C ends it")
    elif url:
        command = f".venv/bin/warrener console --store {store}"
        console.print(f"  {command}", soft_wrap=True)
        console.print(
            f"    serves the console at {url}; `make demo KEEP=1` leaves it running", soft_wrap=True
        )
    console.print(f"  .venv/bin/warrener dead-letters --store {store}", soft_wrap=True)
    console.print(
        "  README.md, to run handlers of your own; docs/journey-of-a-job.md, for what happened here"
    )


def _figures(summary: Summary) -> list[tuple[str, str, str]]:
    loaded, done = summary.loaded, summary.states[JobState.SUCCEEDED]
    retries = sum(job.attempt - 1 for job in summary.jobs)
    speed = f"{done / max(summary.seconds, 0.1):.0f} jobs/s"
    return [
        (f"rows in the {len(summary.expected)} undamaged files", f"{sum(summary.expected.values()):,}", ""),
        ("rows loaded", f"{loaded.rows:,}", ""),
        ("rows loaded twice", f"{loaded.rows - loaded.distinct:,}", ""),
        ("jobs", f"{len(summary.jobs):,}", _counted(summary.states)),
        ("attempts", f"{len(summary.attempts):,}", _counted(summary.ends)),
        ("retries", f"{retries:,}", ""),
        ("seconds, first request to last success", f"{summary.seconds:.1f}", speed),
    ]


def _counted(things: Mapping[Any, int]) -> str:
    return ", ".join(f"{number} {what}" for what, number in sorted(things.items(), key=lambda pair: -pair[1]))
