"""`warrener dead`: list and show; what is done about them stands in `dead_redrives`."""

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from warrener.command import dead_redrives
from warrener.command_runner import connect_store, report_errors, run
from warrener.dead_letter_selection import Cause, JobType, Since, parse_ago, resolve_cause
from warrener.endpoints import resolve_endpoints
from warrener.errors import CommandError
from warrener.job_lookup import find_job
from warrener.options import Json, Limit, Store
from warrener.render.dead_letters import causes_table, dead_letter_page, dead_letters_table, next_action
from warrener.render.job_page import job_page
from warrener.render.screen import err, is_wide, jsonable, out, print_json
from warrener_store import StateStore
from warrener_store.dead_letters.rows import UNRESOLVED, DeadLetterFilter

EXAMPLES = """
warrener dead list --by fingerprint
warrener dead show 456789ab
warrener dead redrive --fingerprint 9f86d0 --dry-run
warrener dead drop --fingerprint 9f86d0 --reason "the files were withdrawn"
"""
LIST_EXAMPLES = """
warrener dead list --by fingerprint
warrener dead list --type flights.load --since 2h --json
"""
SHOW_EXAMPLES = """
warrener dead show 456789ab
"""


class GroupBy(StrEnum):
    """What a line of the list stands for."""

    JOB = "letter"
    FINGERPRINT = "fingerprint"


def dead(ctx: typer.Context, *, limit: Limit = 50, store: Store = None, as_json: Json = False) -> None:
    """The dead letters: list, show, ask for again, drop.

    Without a further word it lists them.
    """
    if ctx.invoked_subcommand is None:
        list_dead_letters(limit=limit, store=store, as_json=as_json)


def list_dead_letters(
    *,
    by: Annotated[GroupBy, typer.Option(help="One line for each, or one for each cause.")] = GroupBy.JOB,
    cause: Cause = None,
    job_type: JobType = None,
    since: Since = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Those too that somebody has dealt with.")
    ] = False,
    limit: Limit = 50,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List the dead letters that nobody has dealt with, the newest first, or their causes."""

    async def body() -> None:
        async with connect_store(resolve_endpoints(store=store)) as open_store:
            which = DeadLetterFilter(
                states=() if everything else UNRESOLVED,
                fingerprint=await resolve_cause(open_store, cause),
                job_type=job_type,
                died_after=parse_ago(since),
                limit=limit,
            )
            await _list(open_store, which, by, as_json=as_json)

    run(body())


async def _list(store: StateStore, which: DeadLetterFilter, by: GroupBy, *, as_json: bool) -> None:
    now = datetime.now(UTC)
    groups = await store.dead_letter_store.group_dead_letters(which) if by is GroupBy.FINGERPRINT else []
    dead_letters = await store.dead_letter_store.list_dead_letters(which) if by is GroupBy.JOB else []
    if as_json:
        print_json(groups or dead_letters)
    elif groups:
        out().print(causes_table(groups, now))
    elif dead_letters:
        out().print(dead_letters_table(dead_letters, now, wide=is_wide()))
    else:
        err().print("[soft]No dead letter is like that.[/]")


def show(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The dead job, or the end of its id.")],
    *,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show everything that is known of one death.

    The job with its arguments, policy and trace, each attempt with its error and stack, the cause, and what
    has been done about it.
    """

    async def body() -> None:
        async with connect_store(resolve_endpoints(store=store)) as open_store:
            await _show(open_store, job_id, as_json=as_json)

    run(body())


async def _show(store: StateStore, text: str, *, as_json: bool) -> None:
    row = await find_job(store, text)
    found = await store.dead_letter_store.list_dead_letters(
        DeadLetterFilter(states=(), job_ids=(row.job_id,))
    )
    if not found:
        raise CommandError(
            f"expected a dead job, got {row.job_id}, which is {row.state.value}",
            do=f"look with `warrener job {row.job_id}`",
        )
    attempts = await store.attempts_of(row.job_id)
    origin = (await store.dead_letter_store.redriven_as([row.job_id])).get(row.job_id)
    if as_json:
        document = jsonable(row) | jsonable(found[0])
        more = {
            "attempts_made": attempts,
            "in_place_of": origin and origin.job_id,
            "next": next_action(found[0]),
        }
        print_json(document | more)
    else:
        out().print(
            job_page(row, attempts, (), datetime.now(UTC)), dead_letter_page(found[0], attempts, origin)
        )


def _examples(lines: str) -> str:
    shown = "\n\n".join(f"[cyan]$[/cyan] {line}" for line in lines.strip().splitlines())
    return f"[bold]Examples[/bold]\n\n{shown}"


def _add(name: str, body: Callable[..., Any], examples: str) -> None:
    app.command(name, epilog=_examples(examples))(report_errors(body))


app = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode="rich",
    epilog=_examples(EXAMPLES),
    callback=report_errors(dead),
)
_add("list", list_dead_letters, LIST_EXAMPLES)
_add("show", show, SHOW_EXAMPLES)
for _name, _body, _lines in dead_redrives.COMMANDS:
    _add(_name, _body, _lines)
