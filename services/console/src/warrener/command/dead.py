"""`warrener dead`: list and show; what is done about them stands in `dead_campaigns`."""

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from warrener.command import dead_campaigns
from warrener.exits import CommandError
from warrener.finding import find_job
from warrener.options import Json, Limit, Store
from warrener.places import find_places
from warrener.running import run, store_at, telling_errors
from warrener.selecting import Cause, JobType, Since, moment_before, whole_cause
from warrener.shown.dead_letters import groups_table, letter_page, letters_table, what_next
from warrener.shown.job_page import job_page
from warrener.shown.screen import err, is_wide, jsonable, out, print_json
from warrener_store import StateStore
from warrener_store.dead_letters import DeadLetterFilter
from warrener_store.rows import UNRESOLVED

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


class By(StrEnum):
    """What a line of the list stands for."""

    LETTER = "letter"
    FINGERPRINT = "fingerprint"


def dead(ctx: typer.Context, *, limit: Limit = 50, store: Store = None, as_json: Json = False) -> None:
    """The dead letters: list, show, ask for again, drop.

    Without a further word it lists them.
    """
    if ctx.invoked_subcommand is None:
        list_letters(limit=limit, store=store, as_json=as_json)


def list_letters(
    *,
    by: Annotated[By, typer.Option(help="One line for each, or one for each cause.")] = By.LETTER,
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
        async with store_at(find_places(store=store)) as open_store:
            which = DeadLetterFilter(
                states=() if everything else UNRESOLVED,
                fingerprint=await whole_cause(open_store, cause),
                job_type=job_type,
                died_after=moment_before(since),
                limit=limit,
            )
            await _list(open_store, which, by, as_json=as_json)

    run(body())


async def _list(store: StateStore, which: DeadLetterFilter, by: By, *, as_json: bool) -> None:
    now = datetime.now(UTC)
    groups = await store.dead_letter_store.group_dead_letters(which) if by is By.FINGERPRINT else []
    letters = await store.dead_letter_store.list_dead_letters(which) if by is By.LETTER else []
    if as_json:
        print_json(groups or letters)
    elif groups:
        out().print(groups_table(groups, now))
    elif letters:
        out().print(letters_table(letters, now, wide=is_wide()))
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
        async with store_at(find_places(store=store)) as open_store:
            await _show(open_store, job_id, as_json=as_json)

    run(body())


async def _show(store: StateStore, text: str, *, as_json: bool) -> None:
    row = await find_job(store, text)
    found = await store.dead_letter_store.list_dead_letters(DeadLetterFilter(states=(), job_ids=(row.job_id,)))
    if not found:
        raise CommandError(
            f"expected a dead job, got {row.job_id}, which is {row.state.value}",
            do=f"look with `warrener job {row.job_id}`",
        )
    attempts = await store.attempts_of(row.job_id)
    origin = (await store.dead_letter_store.redriven_as([row.job_id])).get(row.job_id)
    if as_json:
        told = jsonable(row) | jsonable(found[0])
        more = {
            "attempts_made": attempts,
            "in_place_of": origin and origin.job_id,
            "next": what_next(found[0]),
        }
        print_json(told | more)
    else:
        out().print(job_page(row, attempts, (), datetime.now(UTC)), letter_page(found[0], attempts, origin))


def _examples(lines: str) -> str:
    shown = "\n\n".join(f"[cyan]$[/cyan] {line}" for line in lines.strip().splitlines())
    return f"[bold]Examples[/bold]\n\n{shown}"


def _add(name: str, body: Callable[..., Any], examples: str) -> None:
    app.command(name, epilog=_examples(examples))(telling_errors(body))


app = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode="rich",
    epilog=_examples(EXAMPLES),
    callback=telling_errors(dead),
)
_add("list", list_letters, LIST_EXAMPLES)
_add("show", show, SHOW_EXAMPLES)
for _name, _body, _lines in dead_campaigns.COMMANDS:
    _add(_name, _body, _lines)
