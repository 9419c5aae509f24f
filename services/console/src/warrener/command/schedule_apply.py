"""`warrener schedule apply` and `export`: schedules in a file."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from warrener.calendar import find_problems
from warrener.command_runner import connect_client, connect_store, run
from warrener.endpoints import ResolvedEndpoints, resolve_endpoints
from warrener.errors import CommandError, ExitCode
from warrener.options import Broker, Json, Store
from warrener.render.schedule_plan import plan_lines, summary
from warrener.render.screen import err, out, print_json
from warrener.scheduling.plan import Plan, make_plan
from warrener.scheduling.schedules_file import FileError, SchedulesFile, read_file
from warrener.scheduling.toml_writer import render_schedules
from warrener_contracts.events import SchedulePutData, ScheduleRemoveRequested
from warrener_store import Store as OpenStore

APPLY_EXAMPLES = """
warrener schedule apply schedules.toml
warrener schedule apply schedules.toml --plan
warrener schedule apply schedules.toml --prune --yes
"""
EXPORT_EXAMPLES = """
warrener schedule export > schedules.toml
warrener schedule export flights.hourly mail.nightly --owner airport
"""
_SOMETHING_TO_DO = 2
_TAKEN_UP_WITHIN = 15.0
_LOOK_EVERY = 0.2

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A file of schedules.", dir_okay=False, show_default=False)
]


def apply(
    file: File,
    *,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show what would be done; exit code 2 if there is something.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove what this file's owner put and the file names no more.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether it is meant.")] = False,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Make schedules be as a file says, after showing what that means.

    What is as the file says already is left alone, and so are pauses and schedules that it does not name.
    """
    schedules_file = read_file(file)
    if prune and schedules_file.owner is None:
        raise CommandError(
            f'{file}: expected `owner = "…"` at its top for --prune, got none: it says whose schedules go',
            do="name an owner, apply the file once, then prune",
        )
    endpoints = resolve_endpoints(broker, store)
    found = run(_plan(endpoints, schedules_file, prune=prune))
    _check(file, schedules_file, found)
    if as_json and plan:
        print_json(_json(found, done=False))
    elif not as_json:
        for line in plan_lines(found):
            out().print(line)
    if plan:
        raise typer.Exit(_SOMETHING_TO_DO if found.to_do else ExitCode.OK)
    if found.to_do:
        _confirm(found, yes=yes)
        late = run(_carry_out(endpoints, found))
        _print_result(found, late)
        if late:
            raise typer.Exit(ExitCode.NOT_SUCCESSFUL)
    if as_json:
        print_json(_json(found, done=True))


def export(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Schedules; all if none is named.")
    ] = None,
    *,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="LABEL", help="The owner that the file shall name.")
    ] = None,
    store: Store = None,
) -> None:
    """Write schedules as a file that `apply` reads, to stdout."""

    async def body() -> list[SchedulePutData]:
        async with connect_store(resolve_endpoints(store=store)) as open_store:
            rows = await open_store.schedules(names or None)
            if unknown := sorted(set(names or ()) - rows.keys()):
                raise CommandError(
                    f"expected names of schedules that the store knows, got {', '.join(unknown)}",
                    do="look at `warrener schedule list`",
                )
            return [row.asked for row in rows.values()]

    try:
        sys.stdout.write(render_schedules(run(body()), owner))
    except ValueError as error:
        raise CommandError(f"a schedule cannot be written: {error}") from error


async def _plan(endpoints: ResolvedEndpoints, schedules_file: SchedulesFile, *, prune: bool) -> Plan:
    async with connect_store(endpoints) as open_store:
        rows = await open_store.schedules(
            None if prune else [definition.name for definition in schedules_file.schedules]
        )
    current = {name: row.asked for name, row in rows.items()}
    return make_plan(schedules_file.schedules, current, owner=schedules_file.owner, prune=prune)


def _check(file: Path, schedules_file: SchedulesFile, found: Plan) -> None:
    """What would be refused is said before anything is asked for."""
    for definition, problem in zip(found.puts, find_problems(found.puts), strict=True):
        if problem is not None:
            place = schedules_file.schedules.index(definition)
            raise FileError(
                file, schedules_file.lines[place], f"[[schedule]] {place + 1} ({definition.name})", problem
            )


def _confirm(found: Plan, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(
            f"expected --yes where nobody can be asked, got none: {summary(found)}",
            do="look with --plan, then say --yes",
            code=ExitCode.USAGE,
        )
    typer.confirm("Do this?", abort=True, err=True)


async def _carry_out(endpoints: ResolvedEndpoints, found: Plan) -> list[str]:
    """Ask for it; the names of those that no scheduler has taken up in time."""
    async with connect_client(endpoints) as client:
        await client.put_schedules(found.puts)
        for name in found.removed:
            await client.send_schedule_command(
                ScheduleRemoveRequested, name, "it is not in the file any more"
            )
    async with connect_store(endpoints) as open_store:
        return await _not_taken_up(open_store, found)


async def _not_taken_up(store: OpenStore, found: Plan) -> list[str]:
    waited = 0.0
    while True:
        rows = await store.schedules([step.name for step in found.to_do])
        current = {name: row.asked for name, row in rows.items()}
        left = [step.name for step in make_plan(found.puts, current).to_do]
        left += [name for name in found.removed if name in current]
        if not left or waited > _TAKEN_UP_WITHIN:
            return left
        await asyncio.sleep(_LOOK_EVERY)
        waited += _LOOK_EVERY


def _print_result(found: Plan, late: list[str]) -> None:
    if late:
        err().print(
            f"[odd]![/] asked for, and not taken up by a scheduler within {_TAKEN_UP_WITHIN:g} s: "
            f"{', '.join(late)}"
        )
    else:
        err().print(f"[good]✓[/] {summary(replace(found, steps=tuple(found.to_do)))}: done")


def _json(found: Plan, *, done: bool) -> dict[str, object]:
    return {
        "done": done,
        "schedules": [
            {
                "name": step.name,
                "action": step.action,
                "differs": [difference._asdict() for difference in step.differs],
            }
            for step in found.steps
        ],
    }
