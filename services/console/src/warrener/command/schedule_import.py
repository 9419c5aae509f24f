"""`warrener schedule import`: crontabs and Celery beat schedules as a file of schedules."""

import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from warrener.calendar import find_problems
from warrener.errors import CommandError, ExitCode
from warrener.options import Json
from warrener.render.screen import err, print_json
from warrener.scheduling import celery_beat, celery_source, crontab
from warrener.scheduling.import_result import ImportIssue, ImportResult, Loss
from warrener.scheduling.toml_writer import render_schedules

EXAMPLES = """
warrener schedule import crontab /etc/crontab --system --type cron.line --timezone Europe/Berlin
warrener schedule import celery shop.celery:app -o schedules.toml
warrener schedule import celery beat.json --strict
"""


class ImportSource(StrEnum):
    """Whose schedules they were."""

    CRONTAB = "crontab"
    CELERY = "celery"


def _files(incomplete: str) -> list[str]:
    """A module is no file, so that the shell alone does not complete one."""
    return [str(path) for path in sorted(Path().glob(f"{incomplete}*"))]


def import_(
    kind: Annotated[ImportSource, typer.Argument(metavar="crontab|celery", help="Whose schedules they are.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A crontab file (- is stdin); MODULE:app, FILE.py or FILE.json of Celery.",
            autocompletion=_files,
        ),
    ],
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="The file to write; else stdout.")
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="LABEL", help="The owner that the file shall name.")
    ] = None,
    prefix: Annotated[
        str | None, typer.Option("--prefix", help="Before each schedule's name.", show_default=False)
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="An IANA name; else that of the source, or UTC.", show_default=False)
    ] = None,
    job_type: Annotated[
        str, typer.Option("--type", metavar="TYPE", help="The job type that runs a crontab's commands.")
    ] = "cron.line",
    system: Annotated[
        bool, typer.Option("--system", help="The crontab names a user in each line, as /etc/crontab.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit code 4 if anything is not carried over.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write what was scheduled elsewhere as a file for `warrener schedule apply`.

    What cannot be carried over is told, with the reason. Nothing is asked of anybody.
    """
    if kind is ImportSource.CRONTAB:
        found = crontab.import_schedules(
            _text(source),
            job_type=job_type,
            timezone=timezone or "UTC",
            prefix=prefix or "crontab",
            system=system,
        )
    else:
        beat = (
            celery_source.read_json(Path(source))
            if source.endswith(".json")
            else celery_source.load_python(source)
        )
        found = celery_beat.import_schedules(
            beat.entries,
            timezone=timezone or beat.timezone or "UTC",
            prefix=prefix or "",
            names_of=beat.names_of,
        )
    found = _writable(found.without(find_problems(found.schedules)))
    text = render_schedules(found.schedules, owner, f"From {source}, by `warrener schedule import {kind}`.")
    if output is not None:
        output.write_text(text, encoding="utf-8")
    _print_result(found, text, output, as_json=as_json)
    if strict and found.issues:
        raise typer.Exit(ExitCode.NOT_SUCCESSFUL)


def _text(source: str) -> str:
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"expected a crontab at {source}, got: {error}") from error


def _writable(found: ImportResult) -> ImportResult:
    """TOML has no null: an argument that is one is told, and its schedule left out."""
    problems = list[str | None]()
    for definition in found.schedules:
        try:
            render_schedules([definition])
            problems.append(None)
        except ValueError as error:
            problems.append(str(error))
    return found.without(problems)


def _print_result(found: ImportResult, text: str, output: Path | None, *, as_json: bool) -> None:
    if as_json:
        documents = [definition.model_dump(mode="json", exclude_none=True) for definition in found.schedules]
        print_json({"schedules": documents, "findings": [asdict(issue) for issue in found.issues]})
    elif output is None:
        sys.stdout.write(text)
    screen = err()
    for issue in found.issues:
        screen.print(_line(issue), markup=False)
    left_out = sum(issue.loss is Loss.LEFT_OUT for issue in found.issues)
    screen.print(
        f"[good]✓[/] {len(found.schedules):,} schedules, {left_out:,} left out, "
        f"{len(found.issues) - left_out:,} that differ; see: warrener schedule apply FILE --plan"
    )


def _line(issue: ImportIssue) -> str:
    mark = "✗ left out" if issue.loss is Loss.LEFT_OUT else "! differs "
    return f"{mark}  {issue.where}: {issue.why}"
