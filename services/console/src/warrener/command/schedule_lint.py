"""`warrener schedule lint`: what the owners of schedules may not have meant."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

import typer

from warrener.calendar import Linted, warnings_of
from warrener.exits import CommandError, Exit
from warrener.options import Json, Store
from warrener.places import find_places
from warrener.running import run, store_at
from warrener.shown.schedules import warning_text
from warrener.shown.screen import err, out, print_json
from warrener_store import Store as OpenStore

EXAMPLES = """
warrener schedule lint
warrener schedule lint flights.hourly
warrener schedule lint --json | jq -r '.[] | "\\(.schedule): \\(.kind)"'
"""
_LAST_TICKS = 200
"""Of each schedule, for how long their jobs took."""

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="The schedules; else all.")]


def lint(names: Names = None, *, store: Store = None, as_json: Json = False) -> None:
    """Warn of rules that never tick again, meet clock changes, or overlap by what their jobs took.

    Exit code 0: nothing to warn of; 1: warnings; 2: a name that the store does not know.
    """

    async def ask() -> list[Linted]:
        async with store_at(find_places(store=store)) as open_store:
            return await _schedules(open_store, names or ())

    schedules = run(ask())
    answers = zip(schedules, warnings_of(schedules), strict=True)
    found = [{"schedule": one.asked.name, **warning} for one, some in answers for warning in some]
    if as_json:
        print_json(found)
    else:
        for warning in found:
            out().print(warning_text(warning))
    if not (found or as_json):
        err().print(f"[good]✓[/] nothing to warn of in {len(schedules)} schedules")
    if found:
        raise typer.Exit(Exit.FAILED)


async def _schedules(store: OpenStore, names: Sequence[str]) -> list[Linted]:
    rows = await store.schedules(names or None)
    if missing := [name for name in names if name not in rows]:
        raise CommandError(
            f"expected the names of schedules that the store knows, got {', '.join(map(repr, missing))}",
            do="look at `warrener schedule list`",
            code=Exit.USAGE,
        )
    return [
        Linted(rows[name].asked, rows[name].put_at, await _durations(store, name)) for name in sorted(rows)
    ]


async def _durations(store: OpenStore, name: str) -> list[timedelta]:
    """How long the jobs of its last ticks took, from when they were asked for: an earlier one is in the way
    of the next until it is over, whatever it waited for."""
    ticks = await store.ticks_of(name, _LAST_TICKS)
    begun = {tick.job_id: tick.fired_at or tick.decided_at for tick in ticks if tick.job_id is not None}
    jobs = await store.jobs_by_id(begun)
    return [job.finished_at - begun[job_id] for job_id, job in jobs.items() if job.finished_at is not None]
