"""`warrener dead redrive`, `drop`, `campaigns`, `stop` and `resume`."""

import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from warrener.arguments import parse_arguments
from warrener.command_runner import connect_client, connect_store, run
from warrener.dead_letter_selection import (
    By,
    Cause,
    Everything,
    Ids,
    JobType,
    Since,
    current_user,
    report_invalid_fields,
    resolve_redrive,
    select_dead_letters,
    to_filter,
)
from warrener.endpoints import resolve_endpoints
from warrener.errors import CommandError, ExitCode
from warrener.options import Broker, Json, Limit, Store
from warrener.policy_options import parse_policy_options
from warrener.redrives import SOURCE, follow_redrive, print_redrive, start_redrive
from warrener.render.dead_letters import redrive_page, redrives_table
from warrener.render.screen import err, out, print_json
from warrener_contracts.events import (
    JobDropRequestedData,
    JobRedriveRequestedData,
    RedriveChangeRequested,
    RedriveChangeRequestedData,
)
from warrener_runtime.clock import SystemEntropy

REDRIVE_EXAMPLES = """
warrener dead redrive --fingerprint 9f86d0 --dry-run
warrener dead redrive --fingerprint 9f86d0 --reason "mended in release 42"
warrener dead redrive 456789ab --set path=2013-01-02.csv --unset carrier
"""
DROP_EXAMPLES = """
warrener dead drop --fingerprint 9f86d0 --reason "the files were withdrawn"
"""
CAMPAIGNS_EXAMPLES = """
warrener dead campaigns
warrener dead campaigns 27d25a9
"""
STOP_EXAMPLES = """
warrener dead stop 27d25a9 --reason "the database is slow today"
"""
RESUME_EXAMPLES = """
warrener dead resume 27d25a9 --reason "mended"
"""

Reason = Annotated[str, typer.Option(help="Why; it is kept.")]
RedriveId = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="The campaign, or the end of its id.")]


def redrive(
    ids: Ids = None,
    *,
    cause: Cause = None,
    job_type: JobType = None,
    since: Since = None,
    everything: Everything = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="At most so many.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and count everything, ask for nothing.")
    ] = False,
    edits: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Another value for an argument.")
    ] = None,
    unset: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Without this argument.")] = None,
    queue: Annotated[str | None, typer.Option(help="Another queue than that of the dead job.")] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="JSON", help="Parts of the job type's policy that are to be others.")
    ] = None,
    canary: Annotated[
        int, typer.Option(min=0, max=1000, help="So many first; the others when these are over.")
    ] = 10,
    rate: Annotated[float, typer.Option(min=0.001, max=1000, help="Jobs a second, after the canary.")] = 20.0,
    tolerate: Annotated[
        int, typer.Option(min=0, help="So many may die again before it stops by itself.")
    ] = 0,
    even_if_succeeded: Annotated[
        bool, typer.Option(help="Those too of which the same request has succeeded since.")
    ] = False,
    reason: Reason = "",
    by: By = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not look on; it goes on by itself.")] = False,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Ask for dead jobs again, safely.

    A canary first; when all of it is over and nothing died, the others at a rate. It stops by itself when
    what they died of comes back. A scheduler carries it out, so this command may be interrupted.
    """

    async def body() -> None:
        endpoints = resolve_endpoints(broker, store)
        async with connect_store(endpoints) as open_store:
            which = await select_dead_letters(
                open_store, ids or (), cause=cause, job_type=job_type, since=since, everything=everything
            )
            with report_invalid_fields():
                data = JobRedriveRequestedData(
                    which=which,
                    limit=limit,
                    edits=_edits(edits or (), unset or ()),
                    queue=queue,
                    policy=parse_policy_options(policy),
                    canary=canary,
                    rate=rate,
                    tolerate=tolerate,
                    even_if_succeeded=even_if_succeeded,
                    dry_run=dry_run,
                    by=by or current_user(),
                    reason=reason,
                )
            campaign_id = await start_redrive(endpoints, data)
            if no_wait:
                sys.stdout.write(
                    f"{json.dumps({'campaign_id': str(campaign_id)}) if as_json else campaign_id}\n"
                )
                return
            print_redrive(await follow_redrive(open_store, campaign_id), as_json=as_json)

    run(body())


def drop(
    ids: Ids = None,
    *,
    reason: Annotated[str, typer.Option(help="Why; it is kept with each of them.")],
    cause: Cause = None,
    job_type: JobType = None,
    since: Since = None,
    everything: Everything = False,
    by: By = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether it is meant.")] = False,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Say that nobody will ask for these dead jobs again.

    They stay readable (`warrener dead list --all`), with who said so and why.
    """

    async def body() -> None:
        endpoints = resolve_endpoints(broker, store)
        async with connect_store(endpoints) as open_store:
            which = await select_dead_letters(
                open_store, ids or (), cause=cause, job_type=job_type, since=since, everything=everything
            )
            count = sum((await open_store.dead_letter_store.count_dead_letters(to_filter(which))).values())
            _confirm(count, yes=yes)
            with report_invalid_fields():
                data = JobDropRequestedData(which=which, by=by or current_user(), reason=reason)
            print_redrive(
                await follow_redrive(open_store, await start_redrive(endpoints, data)), as_json=as_json
            )

    run(body())


def _confirm(count: int, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(
            f"expected --yes where nobody can be asked, got none: {count:,} dead letters would be dropped",
            do="look with `warrener dead list`, then say --yes",
            code=ExitCode.USAGE,
        )
    typer.confirm(f"Drop {count:,} dead letters?", abort=True, err=True)


def campaigns(
    campaign: Annotated[
        str | None, typer.Argument(metavar="[CAMPAIGN]", help="One of them, or the end of its id.")
    ] = None,
    *,
    limit: Limit = 20,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List the campaigns over dead letters, or show one.

    What was asked for, how far it is, who did what when, and why it stopped.
    """

    async def body() -> None:
        async with connect_store(resolve_endpoints(store=store)) as open_store:
            ids = [await resolve_redrive(open_store, campaign)] if campaign else []
            rows = await open_store.dead_letter_store.campaigns(ids, limit)
        if as_json:
            print_json(rows[0] if campaign else rows)
        elif campaign:
            out().print(redrive_page(rows[0]))
        elif rows:
            out().print(redrives_table(rows, datetime.now(UTC)))
        else:
            err().print("[soft]No campaign yet; `warrener dead redrive` begins one.[/]")

    run(body())


def stop(
    campaign: RedriveId,
    *,
    reason: Reason = "",
    by: By = None,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Stop a campaign. The jobs that it has asked for already go on."""
    run(_change(campaign, "stop", (broker, store), reason=reason, by=by, as_json=as_json))


def resume(
    campaign: RedriveId,
    *,
    reason: Reason = "",
    by: By = None,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Go on with a campaign that has stopped, with a new canary."""
    run(_change(campaign, "resume", (broker, store), reason=reason, by=by, as_json=as_json))


async def _change(
    text: str,
    change: Literal["stop", "resume"],
    where: tuple[str | None, str | None],
    *,
    reason: str,
    by: str | None,
    as_json: bool,
) -> None:
    endpoints = resolve_endpoints(*where)
    async with connect_store(endpoints) as open_store:
        campaign_id = await resolve_redrive(open_store, text)
    data = RedriveChangeRequestedData(
        campaign_id=campaign_id, change=change, by=by or current_user(), reason=reason
    )
    event = RedriveChangeRequested(
        id=str(SystemEntropy().new_id()),
        source=SOURCE,
        time=datetime.now(UTC),
        subject=str(campaign_id),
        data=data,
    )
    async with connect_client(endpoints) as client:
        await client.send(event)
    if as_json:
        print_json({"campaign_id": campaign_id, "asked": change, "reason": reason})
    else:
        end = str(campaign_id)[-8:]
        err().print(f"[good]✓[/] asked to {change} {campaign_id}; [soft]see warrener dead campaigns {end}[/]")


def _edits(words: Sequence[str], unset: Sequence[str]) -> dict[str, Any]:
    return {**parse_arguments(words), **dict.fromkeys(unset)}


COMMANDS: tuple[tuple[str, Callable[..., Any], str], ...] = (
    ("redrive", redrive, REDRIVE_EXAMPLES),
    ("drop", drop, DROP_EXAMPLES),
    ("campaigns", campaigns, CAMPAIGNS_EXAMPLES),
    ("stop", stop, STOP_EXAMPLES),
    ("resume", resume, RESUME_EXAMPLES),
)
