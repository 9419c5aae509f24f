"""`warrener schedule lint`: what the owners of schedules may not have meant."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

import typer

from warrener.calendar import LintTarget, lint_schedules
from warrener.command_runner import connect_store, run
from warrener.endpoints import resolve_endpoints
from warrener.errors import CommandError, ExitCode
from warrener.options import Json, Store
from warrener.render.schedules import warning_text
from warrener.render.screen import err, out, print_json
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

    async def fetch() -> list[LintTarget]:
        async with connect_store(resolve_endpoints(store=store)) as open_store:
            return await _schedules(open_store, names or ())

    schedules = run(fetch())
    answers = zip(schedules, lint_schedules(schedules), strict=True)
    found = [{"schedule": one.definition.name, **warning} for one, some in answers for warning in some]
    if as_json:
        print_json(found)
    else:
        for warning in found:
            out().print(warning_text(warning))
    if not (found or as_json):
        err().print(f"[good]✓[/] nothing to warn of in {len(schedules)} schedules")
    if found:
        raise typer.Exit(ExitCode.FAILED)


async def _schedules(store: OpenStore, names: Sequence[str]) -> list[LintTarget]:
    rows = await store.schedules(names or None)
    if missing := [name for name in names if name not in rows]:
        raise CommandError(
            f"expected the names of schedules that the store knows, got {', '.join(map(repr, missing))}",
            do="look at `warrener schedule list`",
            code=ExitCode.USAGE,
        )
    return [
        LintTarget(rows[name].asked, rows[name].put_at, await _durations(store, name))
        for name in sorted(rows)
    ]


async def _durations(store: OpenStore, name: str) -> list[timedelta]:
    """How long the jobs of its last ticks took, from when they were asked for: an earlier one is in the way
    of the next until it is over, whatever it waited for."""
    ticks = await store.ticks_of(name, _LAST_TICKS)
    begun = {tick.job_id: tick.fired_at or tick.decided_at for tick in ticks if tick.job_id is not None}
    jobs = await store.jobs_by_id(begun)
    return [job.finished_at - begun[job_id] for job_id, job in jobs.items() if job.finished_at is not None]
