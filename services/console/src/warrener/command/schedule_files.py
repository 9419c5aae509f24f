"""Schedules in files: `warrener schedule apply`, `export` and `import`."""

import asyncio
import sys
from contextlib import suppress
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from warrener import context, options
from warrener.errors import CommandError, ExitCode
from warrener.options import argument, flag, option
from warrener.render.screen import err, out, print_json
from warrener.selection import find_schedules
from warrener_runtime.terminal import escape_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from warrener.importers import ImportResult
    from warrener.schedules.plan import Plan
    from warrener.schedules.schedules_file import SchedulesFile

_CHANGES_PENDING = 2  # the exit code of --plan
_POLL_INTERVAL = 0.2  # seconds
_PLAN_MARKS = {"add": ("+", "good"), "change": ("~", "warning"), "remove": ("-", "error")}

Owner = Annotated[str | None, options.shared("Owner named at the top of the file.", "LABEL")]


def apply(
    file: Path = argument("File of schedules.", "FILE", dir_okay=False),
    *,
    plan: bool = flag("--plan", "Show the changes, make none; exit code 2 if there are some."),
    prune: bool = flag("--prune", "Remove schedules of the file's owner that the file lacks."),
    yes: bool = flag("--yes -y", "No confirmation prompt."),
    no_wait: options.NoWait = False,
    timeout: options.ReplyTimeout = options.DEFAULT_REPLY_TIMEOUT,
    broker: options.Broker = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Put the schedules of a file, after showing the changes.

    Schedules that are as the file says stay as they are, and so do pauses and schedules that the file lacks.

    $ warrener schedule apply schedules.toml
    $ warrener schedule apply schedules.toml --plan
    $ warrener schedule apply schedules.toml --prune --yes
    """
    from warrener.schedules.schedules_file import read_file

    schedules_file = read_file(file)
    if prune and schedules_file.owner is None:
        raise CommandError(
            f'{file}: expected `owner = "…"` at its top for --prune, got none: it says whose schedules go',
            do="name an owner, apply the file once, then prune",
        )
    endpoints = context.resolve_endpoints(broker, store)
    found = context.run(_make_plan(endpoints, schedules_file, prune=prune))
    _check_puts(file, schedules_file, found)
    if as_json and plan:
        print_json(_plan_json(found, done=False))
    elif not as_json:
        for line in _plan_lines(found):
            out().print(line)
    if plan:
        raise typer.Exit(_CHANGES_PENDING if found.to_do else ExitCode.OK)
    if found.to_do:
        options.confirm("Apply these changes?", _summary(found), "--plan", yes=yes)
        changes = _summary(replace(found, steps=tuple(found.to_do)))
        if late := context.run(_carry_out(endpoints, found, None if no_wait else timeout)):
            published = f"published, and not picked up by a scheduler within {timeout:g} s"
            err().print(f"[warning]![/] {published}: {', '.join(late)}")
            raise typer.Exit(ExitCode.NOT_SUCCESSFUL)
        done = "published; a scheduler carries it out" if no_wait else "done"
        err().print(f"[good]✓[/] {changes}: {done}")
    if as_json:
        print_json(_plan_json(found, done=None if found.to_do and no_wait else True))


async def _make_plan(
    endpoints: context.ResolvedEndpoints, schedules_file: "SchedulesFile", *, prune: bool
) -> "Plan":
    from warrener.schedules.plan import make_plan

    async with context.connect_store(endpoints) as open_store:
        rows = await open_store.schedules(
            None if prune else [definition.name for definition in schedules_file.schedules]
        )
    current = {name: row.definition for name, row in rows.items()}
    return make_plan(schedules_file.schedules, current, owner=schedules_file.owner, prune=prune)


def _check_puts(file: Path, schedules_file: "SchedulesFile", found: "Plan") -> None:
    """Raise FileError for the first schedule that a scheduler would refuse, before anything is published."""
    from warrener.schedules.calendar import find_problem
    from warrener.schedules.schedules_file import FileError

    for definition in found.puts:
        if (problem := find_problem(definition)) is not None:
            place = schedules_file.schedules.index(definition)
            raise FileError(
                file, schedules_file.lines[place], f"[[schedule]] {place + 1} ({definition.name})", problem
            )


async def _carry_out(endpoints: context.ResolvedEndpoints, found: "Plan", timeout: float | None) -> list[str]:
    """Publish the changes; returns the names that no scheduler has picked up in time. Without a timeout it
    returns when the broker has confirmed them."""
    from warrener.schedules.plan import make_plan
    from warrener_client import CommandTimeout

    until = monotonic() + (timeout or 0)
    async with context.connect_client(endpoints) as client:
        with suppress(CommandTimeout):  # the store says below which are left
            await client.put_schedules(found.puts, reply_timeout=timeout)
        for name in found.removed:
            await client.remove_schedule(name, "it is no longer in the file")
    if timeout is None:
        return []
    async with context.connect_store(endpoints) as open_store:
        while True:
            rows = await open_store.schedules([step.name for step in found.to_do])
            current = {name: row.definition for name, row in rows.items()}
            left = [step.name for step in make_plan(found.puts, current).to_do]
            left += [name for name in found.removed if name in current]
            if not left or monotonic() > until:
                return left
            await asyncio.sleep(_POLL_INTERVAL)


def _plan_lines(plan: "Plan") -> "Iterator[Text]":
    """A line for each schedule that changes, and one for each field that differs."""
    from rich.text import Text

    from warrener.render.schedules import rule_text
    from warrener.schedules.plan import PlanAction

    def shown(value: object) -> str:
        return "unset" if value is None else str(value)

    for step in plan.to_do:
        mark, style = _PLAN_MARKS[step.action]
        about = ""
        if step.action is PlanAction.ADD and step.wanted is not None:
            about = f"{step.wanted.job_type}, {rule_text(step.wanted.rule)}"
        yield Text.assemble((f"{mark} {step.name}", style), f"  {about}")
        for found in step.differs:
            before, after = (shown(found.before), "soft"), (shown(found.after), "key")
            yield Text.assemble(f"    {found.field}: ", before, " → ", after)
    yield Text(_summary(plan))


def _summary(plan: "Plan") -> str:
    from warrener.schedules.plan import PlanAction

    counts = [f"{plan.count(PlanAction(action)):,} to {action}" for action in _PLAN_MARKS]
    return f"{', '.join(counts)}, {plan.count(PlanAction.UNCHANGED):,} unchanged"


def _plan_json(found: "Plan", *, done: bool | None) -> dict[str, object]:
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


def export(names: options.ScheduleNames = None, *, owner: Owner = None, store: options.Store = None) -> None:
    """Write schedules to stdout as a file that `apply` reads.

    Without names, --owner selects the schedules of this owner; with names, it makes the owner theirs.

    $ warrener schedule export > schedules.toml
    $ warrener schedule export --owner airport
    $ warrener schedule export flights.hourly mail.nightly --owner airport
    """
    from warrener.schedules.schedules_file import render_schedules

    rows = context.query_store(store, lambda open_store: find_schedules(open_store, names or ()))
    definitions = [row.definition for row in rows.values()]
    if owner is not None and not names:
        definitions = [definition for definition in definitions if definition.owner == owner]
        if not definitions:
            raise CommandError(
                f"expected an owner of schedules, got {owner!r}", do="look at `warrener schedule list --json`"
            )
    try:
        sys.stdout.write(escape_json(render_schedules(definitions, owner)))
    except ValueError as error:
        raise CommandError(f"a schedule cannot be written: {error}") from error


class ImportSource(StrEnum):
    """Kinds of schedules that can be imported."""

    CRONTAB = "crontab"
    CELERY = "celery"


def _complete_path(incomplete: str) -> list[str]:
    """Complete files: SOURCE may also be a module, so the shell does not do it."""
    return [str(path) for path in sorted(Path().glob(f"{incomplete}*"))]


def import_(
    kind: ImportSource = argument("Kind of the source.", "crontab|celery"),
    source: str = argument(
        "A crontab file (- is stdin); MODULE:app, FILE.py or FILE.json of Celery.",
        "SOURCE",
        autocompletion=_complete_path,
    ),
    *,
    output: Path | None = option("File to write (default stdout).", names="--output -o", dir_okay=False),
    owner: Owner = None,
    prefix: str | None = option("Prefix of the schedules' names."),
    timezone: str | None = option("IANA time zone (default: that of the source, or UTC)."),
    job_type: str = option(
        "Job type that runs a crontab's commands.", "TYPE", names="--type", default="cron.line"
    ),
    system: bool = flag("--system", "Each line of the crontab names a user, as in /etc/crontab."),
    strict: bool = flag("--strict", "Exit code 4 if anything is not carried over."),
    as_json: options.Json = False,
) -> None:
    """Convert a crontab or a Celery beat schedule to a file for `warrener schedule apply`.

    Reports everything that it cannot carry over, with the reason. It needs neither broker nor store.

    $ warrener schedule import crontab /etc/crontab --system --type cron.line --timezone Europe/Berlin
    $ warrener schedule import celery shop.celery:app -o schedules.toml
    $ warrener schedule import celery beat.json --strict
    """
    from warrener.importers import celery_beat, crontab
    from warrener.schedules.calendar import find_problem
    from warrener.schedules.schedules_file import find_unwritable, render_schedules

    if kind is ImportSource.CRONTAB:
        try:
            text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"expected a crontab at {source}, got: {error}") from error
        found = crontab.import_schedules(
            text, job_type=job_type, timezone=timezone or "UTC", prefix=prefix or "crontab", system=system
        )
    else:
        beat = (
            celery_beat.read_json(Path(source))
            if source.endswith(".json")
            else celery_beat.load_python(source)
        )
        found = celery_beat.import_schedules(
            beat.entries,
            timezone=timezone or beat.timezone or "UTC",
            prefix=prefix or "",
            names_of=beat.names_of,
        )
    found = found.without(find_problem).without(find_unwritable)
    text = render_schedules(found.schedules, owner, f"From {source}, by `warrener schedule import {kind}`.")
    if output is not None:
        output.write_text(text, encoding="utf-8")
    _print_import(found, text, output, as_json=as_json)
    if strict and found.issues:
        raise typer.Exit(ExitCode.NOT_SUCCESSFUL)


def _print_import(found: "ImportResult", text: str, output: Path | None, *, as_json: bool) -> None:
    from warrener.importers import Loss

    if as_json:
        documents = [definition.model_dump(mode="json", exclude_none=True) for definition in found.schedules]
        print_json({"schedules": documents, "findings": [asdict(issue) for issue in found.issues]})
    elif output is None:
        sys.stdout.write(escape_json(text))
    screen = err()
    for issue in found.issues:
        mark = "✗ left out" if issue.loss is Loss.LEFT_OUT else "! differs "
        screen.print(f"{mark}  {issue.where}: {issue.why}", markup=False)
    left_out = sum(issue.loss is Loss.LEFT_OUT for issue in found.issues)
    screen.print(
        f"[good]✓[/] {len(found.schedules):,} schedules, {left_out:,} left out, "
        f"{len(found.issues) - left_out:,} that differ; see: warrener schedule apply FILE --plan"
    )
