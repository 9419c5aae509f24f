"""`warrener dead-letters`: lists dead letters and their causes, and shows one."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from warrener.context import query_store
from warrener.errors import CommandError
from warrener.options import Json, Limit, Store, parse_ago
from warrener.render.screen import err, is_wide, jsonable, out, print_json
from warrener.selection import Cause, JobType, Since, find_job, resolve_cause

if TYPE_CHECKING:
    from warrener_store import StateStore
    from warrener_store.dead_letters.rows import DeadLetterFilter


class GroupBy(StrEnum):
    """Meaning of a line of the list."""

    JOB = "job"
    FINGERPRINT = "fingerprint"


def dead(ctx: typer.Context, *, limit: Limit = 50, store: Store = None, as_json: Json = False) -> None:
    """Dead letters: list, show, redrive, drop. Without a further word it lists them.

    $ warrener dead-letters list --group-by fingerprint
    $ warrener dead-letters show 456789ab
    $ warrener dead-letters redrive --fingerprint 9f86d0 --dry-run
    $ warrener dead-letters drop --fingerprint 9f86d0 --reason "the files were withdrawn"
    """
    if ctx.invoked_subcommand is None:
        list_(limit=limit, store=store, as_json=as_json)


def list_(
    *,
    group_by: Annotated[
        GroupBy, typer.Option("--group-by", help="One line per dead letter, or per cause.")
    ] = GroupBy.JOB,
    cause: Cause = None,
    job_type: JobType = None,
    since: Since = None,
    everything: Annotated[bool, typer.Option("--all", help="Also resolved ones.")] = False,
    limit: Limit = 50,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List the unresolved dead letters, the newest first, or their causes.

    $ warrener dead-letters list --group-by fingerprint
    $ warrener dead-letters list --type flights.load --since 2h --json
    """

    from warrener_store.dead_letters.rows import UNRESOLVED, DeadLetterFilter

    async def body(open_store: "StateStore") -> None:
        which = DeadLetterFilter(
            states=() if everything else UNRESOLVED,
            fingerprint=await resolve_cause(open_store, cause),
            job_type=job_type,
            died_after=parse_ago(since),
            limit=limit,
        )
        await _print_list(open_store, which, group_by, as_json=as_json)

    query_store(store, body)


async def _print_list(
    store: "StateStore", which: "DeadLetterFilter", group_by: GroupBy, *, as_json: bool
) -> None:
    from warrener.render.dead_letters import causes_table, dead_letters_table

    now = datetime.now(UTC)
    groups = (
        await store.dead_letter_store.group_dead_letters(which) if group_by is GroupBy.FINGERPRINT else []
    )
    dead_letters = await store.dead_letter_store.list_dead_letters(which) if group_by is GroupBy.JOB else []
    if as_json:
        print_json(groups or dead_letters)
    elif groups:
        out().print(causes_table(groups, now))
    elif dead_letters:
        out().print(dead_letters_table(dead_letters, now, wide=is_wide()))
    else:
        err().print("[soft]No dead letter matches.[/]")


def show(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The dead job, or the end of its id.")],
    *,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show one dead letter.

    The job with its arguments, policy and trace, each attempt with its error and stack, the cause, and the
    redrive or drop.

    $ warrener dead-letters show 456789ab
    """

    async def body(open_store: "StateStore") -> None:
        await _print_dead_letter(open_store, job_id, as_json=as_json)

    query_store(store, body)


async def _print_dead_letter(store: "StateStore", text: str, *, as_json: bool) -> None:
    from warrener.render.dead_letters import dead_letter_page, next_action
    from warrener.render.job_page import job_page
    from warrener_store.dead_letters.rows import DeadLetterFilter

    row = await find_job(store, text)
    found = await store.dead_letter_store.list_dead_letters(
        DeadLetterFilter(states=(), job_ids=(row.job_id,))
    )
    if not found:
        raise CommandError(
            f"expected a dead job, got {row.job_id}, which is {row.state.value}",
            do=f"look with `warrener job {row.job_id}`",
        )
    attempts = await store.attempts_of([row.job_id])
    origins = await store.dead_letter_store.list_dead_letters(
        DeadLetterFilter(states=(), redriven_as=(row.job_id,))
    )
    origin = origins[0] if origins else None
    if as_json:
        more = {
            "attempts_made": attempts,
            "in_place_of": origin and origin.job_id,
            "next": next_action(found[0]),
        }
        print_json(jsonable(row) | jsonable(found[0]) | more)
    else:
        out().print(
            job_page(row, attempts, (), datetime.now(UTC)), dead_letter_page(found[0], attempts, origin)
        )
