"""`warrener parked`: list, send in again, drop."""

from base64 import b64encode
from collections.abc import Callable
from typing import Annotated, Any

import typer

from warrener.command.listing import show_list
from warrener.command_runner import report_errors, run
from warrener.dead_letter_selection import By, current_user, parse_ago
from warrener.endpoints import resolve_endpoints
from warrener.errors import CommandError, ExitCode
from warrener.options import Broker, Json, Limit, Store
from warrener.parked_commands import (
    ParkedCommand,
    ParkedSelection,
    execute,
    preview,
    print_preview,
    print_result,
)
from warrener.render.screen import print_json
from warrener.render.tables import parked_table
from warrener_store.parked.rows import ParkedFilter, ParkedMessage

EXAMPLES = """
warrener parked
warrener parked --json | jq -r '.[0].body'
warrener parked requeue --reason unknown_job_type
warrener parked drop --queue warrener.requests --before 30d --yes
"""
LIST_EXAMPLES = """
warrener parked list
warrener parked list --json | jq -r '.[0].body'
"""
REQUEUE_EXAMPLES = """
warrener parked requeue --reason unknown_job_type
warrener parked requeue --queue warrener.status --since 2h --yes
"""
DROP_EXAMPLES = """
warrener parked drop --reason not_json --before 30d
warrener parked drop 7d1b9f52-5f0e-5d4b-9c39-0a8f6a3b1c44 --yes --reason-why "sent by a test"
"""

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Parked messages, by `parked_id` of `warrener parked --json`."),
]
Reason = Annotated[str | None, typer.Option("--reason", metavar="WORD", help="Parked for this reason.")]
InQueue = Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Parked from this queue.")]
Since = Annotated[str | None, typer.Option("--since", metavar="2h", help="Parked within this time.")]
Before = Annotated[str | None, typer.Option("--before", metavar="30d", help="Parked longer ago than this.")]
Everything = Annotated[bool, typer.Option("--all", help="All of them.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it; without it the command shows what it would do.")]
Wait = Annotated[float, typer.Option(min=0, help="Seconds to wait for the supervisor after each 200.")]


def parked(ctx: typer.Context, *, limit: Limit = 50, store: Store = None, as_json: Json = False) -> None:
    """The messages that no service could use: list, send in again, drop.

    They are kept with the reason (and as they came, in JSON). Without a further word it lists them.
    """
    if ctx.invoked_subcommand is None:
        list_(limit=limit, store=store, as_json=as_json)


def list_(*, limit: Limit = 50, store: Store = None, as_json: Json = False) -> None:
    """List the messages that no service could use, the newest first."""
    show_list(
        store,
        lambda open_store: open_store.parked(limit),
        parked_table,
        as_json=as_json,
        none="No message is parked.",
        to_json=_to_json,
    )


def requeue(
    ids: Ids = None,
    *,
    reason: Reason = None,
    queue: InQueue = None,
    since: Since = None,
    before: Before = None,
    everything: Everything = False,
    yes: Yes = False,
    by: By = None,
    wait: Wait = 30.0,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Send parked messages in again, once the cause is mended.

    Each goes to the queue in which it was and is forgotten once the broker has confirmed it. What still
    cannot be used is parked again. Without --yes it only shows what it would do.
    """
    which = _selection(ids, reason, queue, since, before, everything=everything)
    _run(
        ParkedCommand("requeue", which, by or current_user(), ""),
        broker,
        store,
        yes=yes,
        wait=wait,
        as_json=as_json,
    )


def drop(
    ids: Ids = None,
    *,
    reason: Reason = None,
    queue: InQueue = None,
    since: Since = None,
    before: Before = None,
    everything: Everything = False,
    why: Annotated[str, typer.Option("--reason-why", help="Why; it is logged.")] = "asked for",
    yes: Yes = False,
    by: By = None,
    wait: Wait = 30.0,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Delete parked messages for good.

    Without --yes it only shows what it would do.
    """
    which = _selection(ids, reason, queue, since, before, everything=everything)
    _run(
        ParkedCommand("drop", which, by or current_user(), why),
        broker,
        store,
        yes=yes,
        wait=wait,
        as_json=as_json,
    )


def _run(
    command: ParkedCommand, broker: str | None, store: str | None, *, yes: bool, wait: float, as_json: bool
) -> None:
    endpoints = resolve_endpoints(broker, store)
    found: ParkedSelection = run(preview(endpoints, command))
    if not yes or not found.messages:
        if as_json:
            print_json(found.preview)
        else:
            print_preview(found, command, yes=yes)
        return
    result = run(execute(endpoints, command, found, wait=wait))
    if as_json:
        print_json(result)
    else:
        print_result(result)
    if result.left or result.parked_again:
        raise typer.Exit(ExitCode.NOT_SUCCESSFUL)


def _selection(
    ids: list[str] | None,
    reason: str | None,
    queue: str | None,
    since: str | None,
    before: str | None,
    *,
    everything: bool,
) -> ParkedFilter:
    if not (ids or reason or queue or since or before or everything):
        raise CommandError(
            "expected which parked messages are meant, got nothing",
            do="give ids, --reason, --queue, --since or --before; or --all",
            code=ExitCode.USAGE,
        )
    return ParkedFilter(
        reason=reason,
        queue=queue,
        since=parse_ago(since),
        before=parse_ago(before),
        ids=tuple(ids) if ids else None,
    )


def _to_json(message: ParkedMessage) -> dict[str, Any]:
    """`body` is text, or `body_base64` what is not."""
    fields = {name: getattr(message, name) for name in message.__slots__ if name != "body"}
    try:
        return fields | {"body": message.body.decode()}
    except UnicodeDecodeError:
        return fields | {"body_base64": b64encode(message.body).decode()}


def _examples(lines: str) -> str:
    shown = "\n\n".join(f"[cyan]$[/cyan] {line}" for line in lines.strip().splitlines())
    return f"[bold]Examples[/bold]\n\n{shown}"


def _add(name: str, body: Callable[..., Any], examples: str) -> None:
    app.command(name, epilog=_examples(examples))(report_errors(body))


app = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode="rich",
    epilog=_examples(EXAMPLES),
    callback=report_errors(parked),
)
_add("list", list_, LIST_EXAMPLES)
_add("requeue", requeue, REQUEUE_EXAMPLES)
_add("drop", drop, DROP_EXAMPLES)
